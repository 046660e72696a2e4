package entry_test

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-go/holdfast/entry"
)

var someUUID = [16]byte{0x0f, 0x8f, 0xad, 0x5b, 0xd9, 0xcb, 0x46, 0x9f, 0xa1, 0x65, 0x70, 0x86, 0x77, 0x28, 0x95, 0x0e}

// What the codecs of Redisson 4.7.0 make of keys.
func TestCodecsWriteTheBytesOfRedisson(t *testing.T) {
	text := func(length int) string { return strings.Repeat("x", length) }
	for name, c := range map[string]struct {
		want string
		got  []byte
	}{
		"string":           {"ключ", entry.StringCodec("ключ")},
		"string, integer":  {"-5", entry.StringCodec(int32(-5))},
		"string, long":     {"9223372036854775807", entry.StringCodec(int64(math.MaxInt64))},
		"string, uuid":     {"0f8fad5b-d9cb-469f-a165-70867728950e", entry.StringCodec(someUUID)},
		"long":             {"-9223372036854775808", entry.LongCodec(int64(math.MinInt64))},
		"json, empty":      {`""`, entry.JsonJacksonCodec("")},
		"json, escapes":    {`"\"\\\b\t\n\f\r\u0000\u001F\u000B"`, entry.JsonJacksonCodec("\"\\\b\t\n\f\r\x00\x1f\v")},
		"json, no escapes": {"\"\u2028</x>&'/\x7f\u00a0é鍵\"", entry.JsonJacksonCodec("\u2028</x>&'/\x7f\u00a0é鍵")},
		"json, beyond":     {`"\uD83D\uDD12"`, entry.JsonJacksonCodec("🔒")},
		"json, integer":    {"-2147483648", entry.JsonJacksonCodec(int32(math.MinInt32))},
		"json, long":       {`["java.lang.Long",-1]`, entry.JsonJacksonCodec(int64(-1))},
		"json 3, string":   {"\"鍵🔒\\u001F\"", entry.JsonJackson3Codec("鍵🔒\x1f")},
		"json 3, integer":  {"5", entry.JsonJackson3Codec(int32(5))},
		"json 3, long":     {"-1", entry.JsonJackson3Codec(int64(-1))},
		"kryo, empty":      {"\x03\x81", entry.Kryo5Codec("")},
		"kryo, letter":     {"\x03\x82a", entry.Kryo5Codec("a")},
		"kryo, 4":          {"\x03ann\xe1", entry.Kryo5Codec("anna")},
		"kryo, 32":         {"\x03" + text(31) + "\xf8", entry.Kryo5Codec(text(32))},
		"kryo, 33":         {"\x03\xa2" + text(33), entry.Kryo5Codec(text(33))},
		"kryo, 63":         {"\x03\xc0\x01" + text(63), entry.Kryo5Codec(text(63))},
		"kryo, 200":        {"\x03\xc9\x03" + text(200), entry.Kryo5Codec(text(200))},
		"kryo, beyond":     {"\x03\x84\xe9\x8d\xb5\xed\xa0\xbd\xed\xb4\x92", entry.Kryo5Codec("鍵🔒")},
		"kryo, integer":    {"\x02\x81\x01", entry.Kryo5Codec(int32(-65))},
		"kryo, last":       {"\x02\xff\xff\xff\xff\x0f", entry.Kryo5Codec(int32(math.MinInt32))},
		"kryo, long":       {"\x09\xfe\x7f", entry.Kryo5Codec(int64(8191))},
		"kryo, longest":    {"\x09\xfe\xff\xff\xff\xff\xff\xff\xff\xff", entry.Kryo5Codec(int64(math.MaxInt64))},
		"kryo, uuid": {
			"\x01\x00java.util.UUI\xc4" + "\x9f\x46\xcb\xd9\x5b\xad\x8f\x0f" + "\x0e\x95\x28\x77\x86\x70\x65\xa1",
			entry.Kryo5Codec(someUUID),
		},
	} {
		assert.Equal(t, c.want, string(c.got), name)
	}
}
