package wire_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-go/holdfast/internal/wire"
)

func TestNamesAreRedissons(t *testing.T) {
	for name, want := range map[string]struct{ channel, token, suffix string }{
		"job":        {"redisson_lock__channel:{job}", "redisson_lock_token:{job}", "{job}:timeout"},
		"a:b":        {"redisson_lock__channel:{a:b}", "redisson_lock_token:{a:b}", "{a:b}:timeout"},
		"app{42}job": {"redisson_lock__channel:app{42}job", "redisson_lock_token:app{42}job", "app{42}job:timeout"},
		"open{":      {"redisson_lock__channel:open{", "redisson_lock_token:open{", "open{:timeout"},
		"ключ":       {"redisson_lock__channel:{ключ}", "redisson_lock_token:{ключ}", "{ключ}:timeout"},
	} {
		assert.Equal(t, want.channel, wire.LockChannel(name))
		assert.Equal(t, want.token, wire.TokenKey(name))
		assert.Equal(t, want.suffix, wire.Suffix(name, "timeout"))
	}
	assert.Equal(t, "0f8fad5b-d9cb-469f-a165-70867728950e:42", wire.Owner("0f8fad5b-d9cb-469f-a165-70867728950e", 42))
}

func TestCheckName(t *testing.T) {
	assert.NoError(t, wire.CheckName("x"))
	assert.NoError(t, wire.CheckName(strings.Repeat("x", wire.MaxName)))
	assert.ErrorContains(t, wire.CheckName(""), "empty")
	assert.ErrorContains(t, wire.CheckName(strings.Repeat("x", wire.MaxName+1)), "65537")
}

func TestSlot(t *testing.T) {
	// These come from the cluster specification and from a real server's CLUSTER KEYSLOT.
	assert.EqualValues(t, 0x31C3, wire.Slot("123456789"))
	assert.EqualValues(t, 12182, wire.Slot("foo"))
	assert.Equal(t, wire.Slot("user1000"), wire.Slot("{user1000}.following"))
	assert.Equal(t, wire.Slot("bar"), wire.Slot("foo{bar}{zap}"))
}

func TestCheckSlot(t *testing.T) {
	for _, good := range []string{"x", "a:b", "app{42}job", "{42}", "a{b}c{d}", "a{b}}"} {
		assert.NoError(t, wire.CheckSlot(good, wire.LockChannel(good)), good)
	}
	for _, bad := range []string{"}", "a}b", "{", "a{b", "a{}b", "{}", "}{a}", "a}b{c}"} {
		assert.Error(t, wire.CheckSlot(bad, wire.LockChannel(bad)), bad)
	}
	for _, long := range []string{"{" + strings.Repeat("x", 60_000), "}{" + strings.Repeat("x", 60_000) + "}"} {
		assert.Less(t, len(wire.CheckSlot(long, wire.LockChannel(long)).Error()), 1000)
	}
}

// A latch's channel always has braces around the name, so if the name has a hash tag, the channel is in another slot.
func TestCheckSlotOfALatch(t *testing.T) {
	assert.NoError(t, wire.CheckSlot("x", wire.LatchChannel("x")))
	assert.ErrorContains(t, wire.CheckSlot("a{b}", wire.LatchChannel("a{b}")), "cannot be used in a cluster")
}

// Whatever the name is, if it is accepted, every key and channel that is derived from it is in its slot.
func FuzzAcceptedNamesShareASlot(f *testing.F) {
	for _, seed := range []string{"orders:42", "}", "{", "{}", "a{b}c", "}{a}", "a{b}{", "{{a}}"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if wire.CheckName(name) != nil || wire.CheckSlot(name, wire.LockChannel(name)) != nil {
			return
		}
		for _, key := range []string{
			wire.LockChannel(name), wire.TokenKey(name), wire.Suffix(name, "x"),
			wire.LockChannel(name) + ":owner",
		} {
			if wire.Slot(key) != wire.Slot(name) {
				t.Errorf("%q is in slot %d, %q in slot %d", name, wire.Slot(name), key, wire.Slot(key))
			}
		}
	})
}
