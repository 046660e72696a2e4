package fleet

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/leader"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// patience is longer than any candidate sleeps without looking, on a busy machine.
const patience = 30 * time.Second

// A replica takes over, which has everything or nothing. Terms do not overlap, unless it has forgotten a leader whose
// lease outlasts the failover; and those that are told never go back.
func TestTermsUnderSentinelFailover(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		lease   time.Duration // the sentinels need 2 s to take a master for dead
		forgets bool
	}{{time.Second, true}, {20 * time.Second, false}, {20 * time.Second, true}} {
		t.Run(fmt.Sprintf("lease %v, forgets %v", c.lease, c.forgets), func(t *testing.T) {
			t.Parallel()
			set := redistest.StartSentinels(t)
			join := func() *holdfast.Session {
				return kit.OpenWith(t, kit.BySentinel(set), &holdfast.Options{Lease: c.lease})
			}
			h := &history{begun: make(chan term, 100)}
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			const all = 3
			ended := make(chan error, all)
			var resigns atomic.Int64 // the term that is to end
			for who := range all {
				s := join()
				go func() {
					ended <- leader.Run(ctx, s, election, func(ctx context.Context) error {
						return believe(ctx, who, func(said term) {
							h.add(said)
							if said.Term == resigns.Load() {
								_ = leader.Resign(ctx)
							}
						})
					})
				}()
			}
			onlooker := kit.OpenWith(t, kit.BySentinel(set), &holdfast.Options{Lease: 20 * time.Second})
			told := watch(ctx, onlooker)
			first := kit.Within(t, 20*time.Second, h.begun, "a leader")
			queued(t, onlooker, all-1)
			newest := int64(0)
			for newest == 0 { // what comes after the failover may be heard of 6 s later
				newest = kit.Within(t, patience, told, "the first leader").leader.Term
			}
			set.Master().AwaitReplica(t)
			if c.forgets {
				set.Replica().Forget(t)
			}
			set.Failover(t)

			last := first.Term
			if c.forgets {
				last = kit.Within(t, patience, h.begun, "another leader").Term
				require.Greater(t, last, first.Term)
			}
			for range 2 {
				var l leader.Leader
				kit.AwaitFor(t, patience, "a record", func() (ok bool) {
					var err error
					l, err = leader.Current(t.Context(), onlooker, election)
					return err == nil && l.Term >= last
				})
				resigns.Store(l.Term)
				last = kit.Within(t, patience, h.begun, "the next leader").Term
				if last == l.Term { // it has begun to lead meanwhile, and is to resign
					last = kit.Within(t, patience, h.begun, "the next leader").Term
				}
				require.Greater(t, last, l.Term)
			}
			stop()
			for range all {
				require.ErrorIs(t, kit.Within(t, patience, ended, "the end"), context.Canceled)
			}
			for w := range told {
				if w.leader.Term != 0 {
					require.Greater(t, w.leader.Term, newest)
					newest = w.leader.Term
				}
			}
			if !c.forgets || c.lease == time.Second {
				require.GreaterOrEqual(t, h.check(t), all)
			}
		})
	}
}
