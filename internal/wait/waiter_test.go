package wait_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/wait"
)

// These are the bounds of guarantee G5: 5 s ± 20 %.
const (
	shortest = 4 * time.Second
	longest  = 6 * time.Second
)

func FuzzIntervalIsALittleLongerThanWhatIsInTheWay(f *testing.F) {
	for _, d := range []time.Duration{
		math.MinInt64, -1, 0, 1, time.Millisecond, time.Second, shortest - 1, shortest, shortest + 1,
		5 * time.Second, 5950 * time.Millisecond, longest - 1, longest, time.Hour, math.MaxInt64,
	} {
		f.Add(int64(d))
	}
	f.Fuzz(func(t *testing.T, ns int64) {
		d := time.Duration(ns)
		for range 500 { // the result is random
			got := wait.Interval(d)
			require.Less(t, got, longest)
			switch {
			case d < 0 || d >= longest:
				require.GreaterOrEqual(t, got, shortest)
			default:
				require.GreaterOrEqual(t, got, min(d, shortest))
				require.LessOrEqual(t, got, d+2*time.Millisecond+d/64)
			}
			if 0 <= d && d < shortest-100*time.Millisecond {
				require.GreaterOrEqual(t, got, d+time.Millisecond)
			}
		}
	})
}

func TestIntervalSpreadsThoseWhoWaitForTheSame(t *testing.T) {
	for _, d := range []time.Duration{-1, 0, time.Second, time.Hour} {
		seen := map[time.Duration]bool{}
		for range 1000 {
			seen[wait.Interval(d)] = true
		}
		assert.Greater(t, len(seen), 900, d)
	}
}

func TestASleepEndsWithWhatComesFirst(t *testing.T) {
	why := errors.New("why")
	for name, c := range map[string]struct {
		during func(w *wait.Waiter, end context.CancelCauseFunc, closeAll func())
		d      time.Duration
		after  time.Duration
		err    error
	}{
		"its time":               {nil, time.Minute, time.Minute, nil},
		"no time at all":         {nil, 0, 0, nil},
		"a time that has passed": {nil, -time.Second, 0, nil},
		"a wake-up": {func(w *wait.Waiter, _ context.CancelCauseFunc, _ func()) {
			time.Sleep(time.Second)
			w.Wake()
		}, time.Minute, time.Second, nil},
		"its context": {func(_ *wait.Waiter, end context.CancelCauseFunc, _ func()) {
			time.Sleep(time.Second)
			end(why)
		}, time.Minute, time.Second, why},
		"the session": {func(_ *wait.Waiter, _ context.CancelCauseFunc, closeAll func()) {
			time.Sleep(time.Second)
			closeAll()
		}, time.Minute, time.Second, wait.ErrClosed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				alarm := wait.NewAlarm()
				ctx, end := context.WithCancelCause(t.Context())
				defer end(nil)
				w := wait.NewWaiter(alarm)
				if c.during != nil {
					go c.during(&w, end, alarm.Close)
				}
				began := time.Now()
				assert.Equal(t, c.err, w.Sleep(ctx, c.d))
				assert.Equal(t, c.after, time.Since(began))
			})
		})
	}
}

func TestWakeUpsCoalesceAndNoneIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := wait.NewWaiter(wait.NewAlarm())
		slept := func() time.Duration {
			began := time.Now()
			require.NoError(t, w.Sleep(t.Context(), time.Minute))
			return time.Since(began)
		}
		assert.Equal(t, time.Minute, slept(), "nobody has woken it")
		for range 5 { // nobody sleeps: they are kept for the next sleep, all as one
			w.Wake()
		}
		assert.Zero(t, slept())
		assert.Equal(t, time.Minute, slept())
	})
}

// One that sleeps for ever, as a back-off may have it, does not keep the others of its session asleep.
func TestASleepWithoutEndDoesNotStopTheAlarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		alarm := wait.NewAlarm()
		time.Sleep(time.Second) // of the alarm's life
		ctx, end := context.WithCancel(t.Context())
		forever, slept := wait.NewWaiter(alarm), make(chan error)
		go func() { slept <- forever.Sleep(ctx, math.MaxInt64) }()
		synctest.Wait()
		w := wait.NewWaiter(alarm)
		began := time.Now()
		require.NoError(t, w.Sleep(t.Context(), time.Minute))
		assert.Equal(t, time.Minute, time.Since(began))
		end()
		require.ErrorIs(t, <-slept, context.Canceled)
	})
}

// A sleep that a wake-up has ended ends no other one when its time comes.
func TestASleepThatHasEndedIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		alarm := wait.NewAlarm()
		var all [5]wait.Waiter
		slept := make(chan error)
		for i, minutes := range []time.Duration{3, 1, 4, 2, 5} {
			all[i] = wait.NewWaiter(alarm)
			go func() { slept <- all[i].Sleep(t.Context(), minutes*time.Minute) }()
			synctest.Wait()
		}
		for i := range all {
			all[i].Wake()
			require.NoError(t, <-slept)
		}
		time.Sleep(time.Hour)
		for i := range all {
			began := time.Now()
			require.NoError(t, all[i].Sleep(t.Context(), time.Minute))
			assert.Equal(t, time.Minute, time.Since(began), i)
		}
	})
}

// However often it is woken, a call ends some time after its context has.
func TestNoHintKeepsACallFromItsEnd(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	end()
	w := wait.NewWaiter(wait.NewAlarm())
	for hints := 0; ; hints++ {
		require.Less(t, hints, 100, "each of them may come first")
		w.Wake()
		if w.Sleep(ctx, time.Hour) != nil {
			return
		}
	}
}
