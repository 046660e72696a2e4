package wire_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-go/holdfast/internal/wire"
)

const owner = "0f8fad5b-d9cb-469f-a165-70867728950e:42"

// Whatever the name is, the keys beside it lead back to it, and none of them is taken for a name.
func TestKeysLeadBackToTheirNames(t *testing.T) {
	for _, name := range []string{
		"job", "a:b", "app{42}job", "{42}", "open{", "}", "{a}b}", "a}", "{{x}}", "redisson_lock_queue:x", "ключ",
	} {
		for want, key := range map[wire.Role]string{
			wire.Main: name, wire.Sessions: wire.Line(name), wire.Queue: wire.FairQueue(name),
			wire.Writers: wire.RWWriters(name), wire.Token: wire.TokenKey(name),
		} {
			k, names := wire.KeyOf(key)
			assert.Equal(t, want, k.Role, key)
			assert.Contains(t, names, name, key)
		}
		for _, key := range []string{
			wire.LineAlive(name), wire.FairDue(name), wire.FairOurs(name), wire.FairAlive(name), wire.SessionKey(owner[:36]),
			wire.ReadHold(name, owner, 1),
			wire.Prefix("redisson_unlock_latch", name) + ":00",
		} {
			k, _ := wire.KeyOf(key)
			assert.Equal(t, wire.Beside, k.Role, key)
		}
	}
}

// Two names never share a line, whatever their braces. Its key and its channels are in the name's slot.
func TestEachNameHasALineOfItsOwn(t *testing.T) {
	lines := map[string]string{}
	for _, name := range []string{
		"x", "{x}", "{{x}}", ":{x}", ":x", "{:x}", "a{x}", "a}", "{a}}", "{a}b}", "a}b",
		":{a}b}",
	} {
		line := wire.Line(name)
		assert.Empty(t, lines[line], "%s has the line of %s", name, line)
		lines[line] = name
		k, names := wire.KeyOf(line)
		assert.Equal(t, "rlock", k.Kind, name)
		assert.Equal(t, []string{name}, names)
		if wire.CheckSlot(name, wire.LockChannel(name)) == nil {
			for _, key := range []string{line, wire.LineAlive(name), wire.LineChannel(name) + owner} {
				assert.Equal(t, wire.Slot(name), wire.Slot(key), key)
			}
		}
	}
}

func TestTheNamesOfALineInOneText(t *testing.T) {
	session := owner[:36]
	for _, name := range []string{"job", "{42}", "a}", "", "ключ"} {
		text, channel, alive, token := wire.LineNames(name, session)
		assert.Equal(t, wire.LineChannel(name)+session, text[:channel])
		assert.Equal(t, wire.Line(name), text[:channel-wire.SessionSuffix])
		assert.Equal(t, wire.LineAlive(name), text[channel:alive])
		assert.Equal(t, wire.TokenKey(name), text[alive:token])
		mark := wire.LineChannel(name) + wire.Redisson
		assert.Equal(t, mark, text[token:token+len(mark)])
		assert.Equal(t, wire.LockChannel(name), text[token+len(wire.LineChannel(name)):])
	}
}

// What a glob over keys matches are the keys of the names that the glob it is made of matches.
func TestGlobsOfKeys(t *testing.T) {
	for _, k := range wire.Keys {
		if k.Role <= wire.Beside {
			continue
		}
		for _, name := range []string{"job", "app{42}job"} {
			assert.Contains(t, k.Globs(name), k.Of(name))
		}
	}
	assert.Empty(t, wire.Keys[0].Globs("job"))
}

func TestHoldsInTheHashOfALock(t *testing.T) {
	for field, want := range map[string]wire.Hold{
		owner:             {Owner: owner, Count: 2},
		owner + ":write":  {Owner: owner, Writes: true, Count: 2},
		owner + ":tx-1":   {Owner: owner + ":tx-1", Count: 2},
		owner[:37] + "-1": {Owner: owner[:37] + "-1", Count: 2},
	} {
		want.Session = owner[:36]
		got, ok := wire.ParseHold(field, "2")
		assert.True(t, ok, field)
		assert.Equal(t, want, got)
	}
	for field, count := range map[string]string{
		"mode": "read", "u1:1": "1", owner: "0", owner + "1": "01", owner + "2": "x", owner + "3": "+1", owner[:36]: "1",
		owner + "\n": "1", "x" + owner: "1",
	} {
		_, ok := wire.ParseHold(field, count)
		assert.False(t, ok, field)
	}
}

// The glob matches every owner.
func TestOwnerGlob(t *testing.T) {
	assert.Len(t, wire.OwnerGlob, len(owner[:36])+len(":*"))
	for i, c := range wire.OwnerGlob[:37] {
		assert.True(t, c == '?' || owner[i] == byte(c))
	}
}
