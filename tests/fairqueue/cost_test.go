package fairqueue_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/tests/redistest"
)

// TestCommandsInside counts the commands that a script runs, apart from those that read the clock.
func TestCommandsInside(t *testing.T) {
	s := loadScripts(t, redistest.Start(t), asTheyAre)
	const (
		ttl  = 20 * second
		wait = 15 * second
	)
	free := func(waiting ...string) keys {
		k := newKeys()
		k.oursUntil, k.aliveUntil = epoch+day, epoch+day
		for _, o := range waiting {
			k.queue = append(k.queue, o)
			k.due[o] = epoch + javaWait
			if o[0] != 'J' {
				k.ours = append(k.ours, o)
				k.alive[o] = epoch + wait
			}
		}
		return k
	}
	held := func(waiting ...string) keys {
		k := free(waiting...)
		k.grant("H", epoch+ttl)
		return k
	}
	dead := func(k keys, who ...owner) keys {
		for _, o := range who {
			k.alive[o] = epoch
		}
		return k
	}
	dueNow := func(k keys, o owner) keys {
		k.due[o] = epoch
		return k
	}
	dropped := func(k keys, who ...owner) keys {
		for _, o := range who {
			k.queue = removed(k.queue, o)
			delete(k.due, o)
		}
		return k
	}
	acquire := func(wait ms) call {
		return acquireCall(demand{owner: "G", target: 1, lease: javaLease, notAfter: always, wait: wait}, javaWait)
	}
	// theirs is held by one of ours, and all who wait can be handed it.
	theirs := func(waiting ...string) keys {
		k := held(waiting...)
		for _, o := range waiting {
			k.grants[o] = 9500
		}
		return k
	}
	poll, try := acquire(wait), acquire(0)
	leave, release := leaveCall("G", javaWait), releaseCall("H", 0, javaWait)
	reenter := acquireCall(demand{owner: "H", target: 2, lease: javaLease, notAfter: always, wait: wait}, javaWait)

	everybody := func(o owner) bool { return o[0] != 'N' }
	for _, c := range []struct {
		name  string
		state keys
		call  call
		most  int // what was measured when the rules were drafted, plus what has been added since
	}{
		// The script looks at the head before it looks for the dead, for the sake of the fast path.
		{"acquire, free, nobody waits", free(), poll, 4},
		{"acquire, free, as head", free("G", "G2", "J3"), poll, 15 + 1},
		{"re-poll, held, as head", held("G", "G2", "J3"), poll, 12 + 2},
		{"re-poll, held, in the middle", held("J1", "G2", "G", "G4"), poll, 16 + 1},
		{"re-poll, free, somebody else is head", free("J1", "G2", "G"), poll, 19 + 1},
		{"re-entry", held("J1", "G2"), reenter, 4},

		{"acquire, held, first", held(), poll, 9},
		{"acquire, held, later", held("J1", "G2"), poll, 11},
		// What an acquisition costs while the lock passes on among ours: these two, which were 20 and 13.
		{"acquire, held, behind ours", theirs("G1", "G2"), poll, 9},
		{"release, it is handed on", theirs("G1", "G2"), release, 11},

		{"try, held", held("J1"), try, 2},
		{"try, free, somebody waits", free("J1"), try, 6 + 1},

		{"release, nobody waits", held(), release, 2},
		// Waking the next waiter is a write. Before it, a removal of nothing makes the script fail early on a server
		// without memory.
		{"release, somebody waits", held("G1", "J2"), release, 11},
		{"release, Java's head is due", dueNow(held("J1", "G2"), "J1"), release, 9},
		{"release, nobody hears", theirs("N1"), release, 10},
		{"force, somebody waits", held("G1", "J2"), forceCall(always, javaWait), 11 + 1},

		// It may have been granted the lock in the meantime; and the reply tells what it has found.
		{"leave, in the middle", held("J1", "G", "G3"), leave, 6 + 2},
		{"leave, held, as head", held("G", "G3"), leave, 11 + 2},
		{"leave, as the holder", theirs("G2", "G3"), leaveCall("H", javaWait), 17},
		{"leave, free, as head", free("G", "G3"), leave, 15 + 2},
		{"leave, nothing there", held(), leave, 6 + 3},

		{"re-poll, three have died", dead(held("J1", "G2", "G3", "G4", "G"), "G2", "G3", "G4"), poll, 16 + 2 + 3*4},
		{"acquire, three have died at the head", dead(free("G1", "G2", "G3", "G"), "G1", "G2", "G3"), poll, 15 + 1 + 3*7},
		{"back in front of one", dropped(held("G1", "G2", "G", "J4"), "G1", "G2", "G"), poll, 17 + 2*2},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, commands, err := s.run(c.call, c.state, epoch+1, everybody, everybody)
			require.NoError(t, err)
			n := 0
			for name, times := range commands {
				if name != "TIME" {
					n += times
				}
			}
			t.Logf("%2d commands inside, at most %d", n, c.most)
			assert.LessOrEqual(t, n, c.most, "%v; %v", commands, got)
		})
	}
}
