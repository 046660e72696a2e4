package locks

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// A lookout counts what an observer is told, as "<kind> <what>".
type lookout struct {
	mu   sync.Mutex // guards the rest
	told map[string]int
	last holdfast.Acquired // of the successful calls
	of   holdfast.Subject  // of that call
}

func (o *lookout) note(of holdfast.Subject, format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.told == nil {
		o.told = make(map[string]int)
	}
	o.told[of.Kind+" "+fmt.Sprintf(format, args...)]++
}

// once records the first call, and reports any further one as a mistake.
func (o *lookout) once(of holdfast.Subject) func(format string, args ...any) {
	var told atomic.Bool
	return func(format string, args ...any) {
		if told.Swap(true) {
			format = "TWICE " + format
		}
		o.note(of, format, args...)
	}
}

// observer returns an observer that tells the lookout everything.
func (o *lookout) observer() *holdfast.Observer {
	return &holdfast.Observer{
		Acquire: func(_ context.Context, of holdfast.Subject) func(holdfast.Acquired) {
			o.note(of, "acquire")
			once := o.once(of)
			return func(a holdfast.Acquired) {
				once("acquired %s", in(a.Err))
				if a.Err == nil {
					o.mu.Lock()
					defer o.mu.Unlock()
					o.last, o.of = a, of
				}
			}
		},
		Attempt: func(of holdfast.Subject, a holdfast.Attempt) { o.note(of, "attempt %s", in(a.Err)) },
		Wait: func(of holdfast.Subject) func() {
			o.note(of, "wait")
			once := o.once(of)
			return func() { once("waited") }
		},
		WakeUp: func(of holdfast.Subject, by holdfast.WakeUp) { o.note(of, "woken by %s", by) },
		Hold: func(_ context.Context, of holdfast.Subject) func(holdfast.Ended) {
			o.note(of, "hold")
			once := o.once(of)
			return func(e holdfast.Ended) {
				if e.Held <= 0 {
					once("ended at once")
				}
				once("ended %s", in(e.Err))
			}
		},
		Renewal: func(of holdfast.Subject, err error) { o.note(of, "renewal %s", in(err)) },
	}
}

// in names an error in one word.
func in(err error) string {
	switch {
	case err == nil:
		return "well"
	case errors.Is(err, holdfast.ErrBusy):
		return "busy"
	case errors.Is(err, holdfast.ErrLost):
		return "lost"
	case errors.Is(err, holdfast.ErrClosed):
		return "closed"
	case errors.Is(err, context.Canceled):
		return "cancelled"
	}
	return "badly"
}

// counts returns what was told about a kind.
func (o *lookout) counts(kind string) map[string]int {
	o.mu.Lock()
	defer o.mu.Unlock()
	of := make(map[string]int)
	for what, n := range o.told {
		if what, ok := strings.CutPrefix(what, kind+" "); ok {
			of[what] = n
		}
	}
	return of
}

// sum returns how often something was told, about any kind.
func (o *lookout) sum(what string) (n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for told, times := range o.told {
		if strings.HasSuffix(told, " "+what) {
			n += times
		}
	}
	return n
}

// requireTold waits until exactly this was told about a kind.
func (o *lookout) requireTold(t *testing.T, kind string, want map[string]int) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !maps.Equal(o.counts(kind), want) && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	require.Equal(t, want, o.counts(kind), kind)
}

// requireBalance waits until everything that has begun has ended, and requires that it ended once.
func (o *lookout) requireBalance(t *testing.T) {
	t.Helper()
	ended := func() int { return o.sum("ended well") + o.sum("ended lost") + o.sum("ended closed") }
	acquired := func() (n int) {
		for _, how := range []string{"well", "busy", "lost", "closed", "cancelled", "badly"} {
			n += o.sum("acquired " + how)
		}
		return n
	}
	kit.Await(t, "the end of everything", func() bool {
		return o.sum("hold") == ended() && o.sum("wait") == o.sum("waited") && o.sum("acquire") == acquired()
	})
	o.mu.Lock()
	defer o.mu.Unlock()
	for what := range o.told {
		require.NotContains(t, what, "TWICE")
		require.NotContains(t, what, "at once")
	}
}

// told returns what an observer is told of these calls, with the attempts of a kind that asks.
func told(k kit.Kind, what, attempts map[string]int) map[string]int {
	all := maps.Clone(what)
	if k.Asks() {
		maps.Copy(all, attempts)
	}
	return all
}

func observed(t *testing.T, srv *redistest.Server, lease time.Duration) (*lookout, *holdfast.Session) {
	t.Helper()
	o := &lookout{}
	return o, kit.Open(t, srv.Addr(), &holdfast.Options{Lease: lease, Observer: o.observer()})
}
