package lease_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/lease"
)

// These tests use a lease with round fractions.
const (
	length = 3 * time.Minute
	period = time.Minute      // to the next renewal
	along  = 40 * time.Second // what is due that much later is renewed together with the rest
	again  = 9 * time.Second  // to the next try
)

// An item is something that must be renewed.
type item struct {
	lease.Entry
	name  string
	group lease.Group
}

func (i *item) Group() lease.Group { return i.group }

// A call is one batch that the watchdog wanted renewed.
type call struct {
	at    time.Duration
	names []string
}

// A keeper is a watchdog in a bubble, with a callback that renews.
type keeper struct {
	*lease.Watchdog[*item]
	base time.Time
	stop context.CancelFunc

	// renew reports whether the renewal of a batch succeeds, after as long as it takes; nil means at once, always. It
	// is called without mu.
	renew func(c call) bool

	// look returns when an item is to be looked at again that rests; nil means never.
	look func(i *item) time.Duration

	mu    sync.Mutex // guards calls
	calls []call
}

// keep runs a test with a keeper whose time starts at zero, then ends the watchdog's context and waits for what was
// started; the bubble fails the test if anything is left.
func keep(t *testing.T, test func(k *keeper)) {
	t.Helper()
	keepFor(t, length, test)
}

// keepFor is keep with leases of another length.
func keepFor(t *testing.T, length time.Duration, test func(k *keeper)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		k := &keeper{base: time.Now(), stop: stop}
		var wg sync.WaitGroup
		k.Watchdog = lease.NewWatchdog(k.now, length, wg.Go, k.serve, k.looked)
		wg.Go(func() { k.Run(ctx) })
		synctest.Wait()
		test(k)
		stop()
		wg.Wait()
	})
}

func (k *keeper) looked(i *item) time.Duration {
	if k.look == nil {
		return never
	}
	return k.look(i)
}

// never is a moment that does not come.
const never time.Duration = math.MaxInt64

func (k *keeper) now() time.Duration { return time.Since(k.base) }

// serve is the watchdog's callback.
func (k *keeper) serve(batch []*item) {
	c := call{at: k.now()}
	for _, r := range batch {
		c.names = append(c.names, r.name)
	}
	slices.Sort(c.names) // items that are due at the same moment come in any order
	k.mu.Lock()
	k.calls = append(k.calls, c)
	k.mu.Unlock()
	done := k.renew == nil || k.renew(c)
	for _, r := range batch {
		if done {
			k.Renewed(r, c.at)
		} else {
			k.Failed(r)
		}
	}
}

// until lets time pass until that moment.
func (k *keeper) until(then time.Duration) {
	time.Sleep(then - k.now())
	synctest.Wait()
}

// took returns the calls since the last took.
func (k *keeper) took() []call {
	k.mu.Lock()
	defer k.mu.Unlock()
	calls := k.calls
	k.calls = nil
	return calls
}

// times returns when an item was renewed since the last call of took. It calls took itself.
func (k *keeper) times(name string) []time.Duration {
	var at []time.Duration
	for _, c := range k.took() {
		if slices.Contains(c.names, name) {
			at = append(at, c.at)
		}
	}
	return at
}

// items makes n items of one group, named after the group.
func items(n int, group string) []*item {
	all := make([]*item, n)
	for i := range all {
		all[i] = &item{name: fmt.Sprintf("%s%d", group, i), group: lease.Group{Script: group}}
	}
	return all
}

func seconds(all ...float64) []time.Duration {
	moments := make([]time.Duration, len(all))
	for i, s := range all {
		moments[i] = time.Duration(s * float64(time.Second))
	}
	return moments
}
