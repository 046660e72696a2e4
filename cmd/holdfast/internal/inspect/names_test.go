package inspect

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/internal/wire"
)

const owner = "0f8fad5b-d9cb-469f-a165-70867728950e:42"

// Whatever the name: the keys beside it lead back to it, and none of them is taken for a name.
func TestRolesOfKeys(t *testing.T) {
	for _, name := range []string{"job", "a:b", "app{42}job", "{42}", "open{", "}", "{a}b}", "a}", "{{x}}", "redisson_lock_queue:x", "ключ"} {
		for want, key := range map[role]string{
			itself: name, queue: wire.FairQueue(name), writers: wire.RWWriters(name), tokens: wire.TokenKey(name), beside: wire.FairDue(name),
		} {
			got, names := roleOf(key)
			assert.Equal(t, want, got, key)
			if want != beside {
				assert.Contains(t, names, name, key)
			}
		}
		for _, key := range []string{
			wire.FairOurs(name), wire.FairAlive(name), wire.SessionKey(owner[:36]), wire.Suffix(name, owner+":rwlock_timeout:1"),
			wire.Prefix("redisson_unlock_latch", name) + ":00",
		} {
			got, _ := roleOf(key)
			assert.Equal(t, beside, got, key)
		}
	}
}

func TestOwners(t *testing.T) {
	for field, want := range map[string]Holder{
		owner:             {ID: owner, Count: 2},
		owner + ":write":  {ID: owner, Mode: ModeWrite, Count: 2},
		owner + ":tx-1":   {ID: owner + ":tx-1", Count: 2},
		owner[:37] + "-1": {ID: owner[:37] + "-1", Count: 2},
	} {
		want.Session = owner[:36]
		got, ok := holderOf(field, "2")
		assert.True(t, ok, field)
		assert.Equal(t, want, got)
	}
	for field, count := range map[string]string{
		"mode": "read", "u1:1": "1", owner: "0", owner + "1": "01", owner + "2": "x", owner + "3": "+1", owner[:36]: "1", owner + "\n": "1", "x" + owner: "1",
	} {
		_, ok := holderOf(field, count)
		assert.False(t, ok, field)
	}
}

func TestRecentIsBounded(t *testing.T) {
	r := newRecent()
	assert.True(t, r.add("first"))
	assert.False(t, r.add("first"))
	for i := range 3 * generation {
		r.add(string(rune(i)) + "x")
	}
	assert.LessOrEqual(t, len(r.younger)+len(r.older), 2*generation)
	assert.True(t, r.add("first"), "forgotten by now")
}

func TestLiteral(t *testing.T) {
	assert.Equal(t, `a\*b\?\[c\]\\`, literal(`a*b?[c]\`))
}

func TestPictureCountsNames(t *testing.T) {
	t.Parallel()
	l := &listing{redis: &cli.Redis{}}
	require.Contains(t, l.picture(look{all: 1, denied: 1}), "  1 name, read in 0s, the first 0 shown, 1 key may not be read")
	require.Contains(t, l.picture(look{all: 2, denied: 2}), "  2 names, read in 0s, the first 0 shown, 2 keys may not be read")
}
