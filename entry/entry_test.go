package entry_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-go/holdfast/entry"
)

// These names were made by Redisson 4.7.0.
func TestNamesAreThoseOfRedisson(t *testing.T) {
	for want, got := range map[string]string{
		"{users}:efydo1kXKDq6fmgCG0DBkw:lock":           entry.Lock("users", "anna", entry.Kryo5Codec),
		"{users}:YtEPxU5iqxtWIWMUEd7KUA:fairlock":       entry.FairLock("users", "anna", entry.StringCodec),
		"{users}:RE0IojEvPTY8Dofe3IkBNA:rw_lock":        entry.ReadWriteLock("users", int64(42), entry.LongCodec),
		"{users}:WwNbBTVB1zGkaLw39wufaA:semaphore":      entry.Semaphore("users", int64(42), entry.JsonJacksonCodec),
		"{users}:VQXPsX8R0Nuk4PCULzvfjg:countdownlatch": entry.CountDownLatch("users", int64(42), entry.Kryo5Codec),
		"{shop}:users:Y5MJ+mge9H+XMmohFCsrTg:permitexpirablesemaphore":// no braces, as there are some
		entry.PermitExpirableSemaphore("{shop}:users", int32(42), entry.Kryo5Codec),
		"{users}:t6rZwibGo2uy1OSmNVe8pg:lock": entry.Lock("users", nil, entry.ByteArrayCodec[[]byte]),
		"{users}:jLfAn1gq52CKyR3XDlUZhQ:lock": entry.Lock("users", strings.Repeat("x", 1000), entry.StringCodec),
	} {
		assert.Equal(t, want, got)
	}
}

// A codec is a function, and types of one's own may be keys.
func TestCodecOfOnesOwn(t *testing.T) {
	type order struct{ shop, number string }
	codec := func(o order) []byte { return []byte(o.shop + "/" + o.number) }
	type id string
	want := entry.Lock("orders", "de/7", entry.StringCodec)
	assert.Equal(t, want, entry.Lock("orders", order{"de", "7"}, codec))
	assert.Equal(t, want, entry.Lock("orders", []byte("de/7"), entry.ByteArrayCodec))
	assert.Equal(t, want, entry.Lock("orders", id("de/7"), entry.StringCodec))
}

func TestMistakes(t *testing.T) {
	assert.Empty(t, entry.Lock("", "anna", entry.StringCodec), "no lock has an empty name")
	assert.PanicsWithValue(t,
		"entry: codec is nil, must be a function that encodes the key as the object's codec in Java does",
		func() { entry.Lock[string]("", "anna", nil) })
}
