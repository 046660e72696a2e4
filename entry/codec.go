package entry

import (
	"encoding/hex"
	"fmt"
	"reflect"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// A Key is of a type that the codecs know. In Java it is a String, an Integer, a Long or a java.util.UUID. Strings are
// UTF-8; others have no counterpart in Java.
type Key interface {
	~string | ~int32 | ~int64 | ~[16]byte
}

// StringCodec encodes a key as its text. So does IntegerCodec, and LongCodec whatever it is given.
func StringCodec[K Key](key K) []byte {
	switch v := reflect.ValueOf(key); v.Kind() {
	case reflect.String:
		return []byte(v.String())
	case reflect.Array:
		id := uuid(v)
		text := hex.EncodeToString(id[:])
		return []byte(text[:8] + "-" + text[8:12] + "-" + text[12:16] + "-" + text[16:20] + "-" + text[20:])
	default:
		return strconv.AppendInt(nil, v.Int(), 10)
	}
}

// LongCodec encodes a number as its decimal digits.
func LongCodec[K ~int64](key K) []byte { return StringCodec(int64(key)) }

// ByteArrayCodec encodes bytes as they are. It is also for keys that you have encoded yourself.
func ByteArrayCodec[K ~[]byte](key K) []byte { return key }

// JsonJacksonCodec encodes a key as JSON, a Long together with its type. How it encodes UUIDs depends on the release of
// Redisson, so they are not supported. TypedJsonJacksonCodec writes no types: it has the same strings, and the numbers
// of [StringCodec].
func JsonJacksonCodec[K ~string | ~int32 | ~int64](key K) []byte {
	switch v := reflect.ValueOf(key); v.Kind() {
	case reflect.String:
		return jsonString(v.String(), true)
	case reflect.Int64:
		return fmt.Appendf(nil, `["java.lang.Long",%d]`, v.Int())
	default:
		return StringCodec(key)
	}
}

// JsonJackson3Codec encodes a key as JSON without a type, and so does TypedJsonJackson3Codec. It is not the same as
// [JsonJacksonCodec] for a Long, nor for characters beyond 16 bits.
func JsonJackson3Codec[K ~string | ~int32 | ~int64](key K) []byte {
	if v := reflect.ValueOf(key); v.Kind() == reflect.String {
		return jsonString(v.String(), false)
	}
	return StringCodec(key)
}

// jsonString writes a string as Jackson does. It escapes less than Go; the older one escapes what is beyond 16 bits.
func jsonString(text string, escapeBeyond bool) []byte {
	bytes := []byte{'"'}
	for _, r := range text {
		switch short, ok := shortEscapes[r]; {
		case ok:
			bytes = append(bytes, '\\', short)
		case r < ' ':
			bytes = fmt.Appendf(bytes, `\u%04X`, r)
		case r > 0xffff && escapeBeyond:
			high, low := utf16.EncodeRune(r)
			bytes = fmt.Appendf(bytes, `\u%04X\u%04X`, high, low)
		default:
			bytes = utf8.AppendRune(bytes, r)
		}
	}
	return append(bytes, '"')
}

var shortEscapes = map[rune]byte{
	'"': '"', '\\': '\\', '\b': 'b', '\t': 't', '\n': 'n', '\f': 'f', '\r': 'r',
}

// uuid is a value of type ~[16]byte.
func uuid(v reflect.Value) (id [16]byte) {
	reflect.Copy(reflect.ValueOf(&id).Elem(), v)
	return id
}
