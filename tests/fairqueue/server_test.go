package fairqueue_test

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// ms is a time of the virtual clock, or a span of it, in milliseconds.
type ms = int64

const (
	second    ms = 1000
	minute       = 60 * second
	day          = 24 * 60 * minute
	forgotten    = 15 * second // so soon, if nobody calls again

	epoch ms = 1_750_000_000_000 // when runs begin, so that times on the wire are as long as in real life
)

// An owner is a wire owner, "<session>:<number>".
type owner = string

const nobody owner = ""

// keys is what the server stores of one lock.
type keys struct {
	counts map[owner]int64 // the lock: at most one holder
	until  ms              // when it expires

	queue []owner
	due   map[owner]ms

	ours       []owner
	oursUntil  ms
	alive      map[owner]ms
	grants     map[owner]ms // for which those in alive may be handed the lock; 0: they do not hear
	aliveUntil ms
}

func newKeys() keys {
	return keys{counts: map[owner]int64{}, due: map[owner]ms{}, alive: map[owner]ms{}, grants: map[owner]ms{}}
}

func (k *keys) clone() keys {
	c := *k
	c.counts, c.due, c.alive = maps.Clone(k.counts), maps.Clone(k.due), maps.Clone(k.alive)
	c.grants = maps.Clone(k.grants)
	c.queue, c.ours = slices.Clone(k.queue), slices.Clone(k.ours)
	return c
}

// expire deletes what has expired.
func (k *keys) expire(now ms) {
	if now >= k.until {
		clear(k.counts)
	}
	if now >= k.oursUntil {
		k.ours = nil
	}
	if now >= k.aliveUntil {
		clear(k.alive)
		clear(k.grants)
	}
}

func (k *keys) free() bool { return len(k.counts) == 0 }

// pttl is the lock's PTTL.
func (k *keys) pttl(now ms) ms {
	if k.free() {
		return -2
	}
	return k.until - now
}

func (k *keys) holder() owner {
	for o := range k.counts {
		return o
	}
	return nobody
}

func (k *keys) head() owner {
	if len(k.queue) == 0 {
		return nobody
	}
	return k.queue[0]
}

// never is when a key expires that has no expiry.
const never ms = 1 << 60

// lives notes that a waiter of ours is alive.
func (k *keys) lives(o owner, until, grant ms) {
	if len(k.alive) == 0 {
		k.aliveUntil = never
	}
	k.alive[o], k.grants[o] = until, grant
}

// forgets is the opposite of lives.
func (k *keys) forgets(o owner) {
	delete(k.alive, o)
	delete(k.grants, o)
}

// grant creates the lock.
func (k *keys) grant(o owner, until ms) {
	k.counts[o] = 1
	k.until = until
}

// dead is ZRANGEBYSCORE alive -inf now LIMIT 0 100.
func (k *keys) dead(now ms) []owner {
	var found []owner
	for o, until := range k.alive {
		if until <= now {
			found = append(found, o)
		}
	}
	slices.SortFunc(found, func(a, b owner) int {
		return cmp.Or(cmp.Compare(k.alive[a], k.alive[b]), cmp.Compare(a, b))
	})
	return found[:min(len(found), 100)]
}

// less is LREM of the first occurrence.
func less(list []owner, o owner) []owner {
	if at := slices.Index(list, o); at >= 0 {
		return slices.Delete(list, at, at+1)
	}
	return list
}

// removed is LREM of all occurrences.
func removed(list []owner, o owner) []owner {
	return slices.DeleteFunc(list, func(x owner) bool { return x == o })
}

// A keyset says which keys a failover or an eviction loses.
type keyset struct {
	queue, due, ours, alive bool
}

func (s keyset) String() string {
	var text strings.Builder
	for _, key := range []struct {
		in   bool
		name string
	}{{s.queue, " queue"}, {s.due, " due"}, {s.ours, " ours"}, {s.alive, " alive"}} {
		if key.in {
			text.WriteString(key.name)
		}
	}
	return text.String()
}

// keysets are all combinations of at least one key.
var keysets = func() (all []keyset) {
	for n := 1; n < 16; n++ {
		all = append(all, keyset{queue: n&1 > 0, due: n&2 > 0, ours: n&4 > 0, alive: n&8 > 0})
	}
	return all
}()

// lose deletes keys as a failover or an eviction does.
func (k *keys) lose(s keyset) {
	if s.queue {
		k.queue = nil
	}
	if s.due {
		clear(k.due)
	}
	if s.ours {
		k.ours = nil
	}
	if s.alive {
		clear(k.alive)
		clear(k.grants)
	}
}
