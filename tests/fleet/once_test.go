package fleet

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/once"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
	"github.com/holdfast-go/holdfast/tests/worker"
)

const report = "cron:report"

var (
	errWork  = errors.New("no paper")
	skips    *once.Options
	takeOver = &once.Options{TakeOver: true}
)

func fine(context.Context) error { return nil }
func bad(context.Context) error  { return errWork }
func busy(context.Context) error { return holdfast.ErrBusy }

// requireRun makes one attempt, and requires that it runs or does not.
func requireRun(t *testing.T, s *holdfast.Session, interval time.Duration, runs bool) {
	t.Helper()
	began := false
	ran, err := once.New(s, report, interval, nil).Run(t.Context(), func(context.Context) error {
		began = true
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, []bool{runs, runs}, []bool{ran, began})
}

// lasts is for how long the server keeps others from running the job; 0: it does not.
func lasts(t *testing.T, srv *redistest.Server) time.Duration {
	return time.Duration(max(srv.Int(t, "PTTL", report), 0)) * time.Millisecond
}

// A run keeps the job from being run again for the interval from when it began, whatever the lease of its session is.
func TestAJobIsRunOncePerInterval(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		opts     *once.Options
		work     func(context.Context) error
		interval time.Duration
		again    bool // it may run again at once
	}{
		"short":                {skips, fine, 5 * time.Second, false},
		"long":                 {skips, fine, time.Hour, false},
		"failed":               {skips, bad, time.Hour, false},
		"found others busy":    {skips, busy, time.Hour, false},
		"taken over":           {takeOver, fine, time.Hour, false},
		"short, to take over":  {takeOver, fine, 5 * time.Second, false},
		"failed is taken over": {takeOver, bad, time.Hour, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t)
			mine, theirs := kit.Open(t, srv.Addr(), nil), kit.Open(t, srv.Addr(), nil)
			ran, err := once.New(mine, report, tt.interval, tt.opts).Run(t.Context(), tt.work)
			require.True(t, ran)
			require.ErrorIs(t, err, tt.work(t.Context()))
			if tt.again {
				require.Zero(t, lasts(t, srv))
				requireRun(t, theirs, tt.interval, true)
				return
			}
			require.NoError(t, mine.Close(), "a session that is closed leaves the interval alone")
			require.LessOrEqual(t, lasts(t, srv), max(tt.interval, 9*time.Second), "the interval, or the session's lease")
			if left := lasts(t, srv); left > 0 { // else this process stood still
				require.Greater(t, left, tt.interval-4*time.Second)
			}
			if tt.interval == time.Hour {
				requireRun(t, theirs, tt.interval, false)
				return
			}
			kit.Await(t, "the end of the interval", func() bool { return srv.Int(t, "EXISTS", report) == 0 })
			requireRun(t, theirs, tt.interval, true)
		})
	}
}

// A run that takes longer than the interval is alone, and the job is due when it ends.
func TestALongRunIsAlone(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string]*once.Options{"skips": skips, "taken over": takeOver} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t)
			mine, theirs := kit.Open(t, srv.Addr(), nil), kit.Open(t, srv.Addr(), nil)
			const interval = 300 * time.Millisecond
			ran, err := once.New(mine, report, interval, opts).Run(t.Context(), func(ctx context.Context) error {
				kit.SleepUntil(time.Now().Add(2 * interval))
				requireRun(t, theirs, interval, false)
				return ctx.Err()
			})
			require.NoError(t, err)
			require.True(t, ran)
			requireRun(t, theirs, interval, true)
		})
	}
}

// A job that is lost while it runs is told so: the ctx of its work ends, and so does the call.
func TestARunLearnsOfItsLoss(t *testing.T) {
	t.Parallel()
	err := loseTheRun(t, func(context.Context) error { return errWork })
	require.ErrorIs(t, err, errWork)
	require.ErrorIs(t, err, holdfast.ErrLost)
}

// A loss that work returns itself is said once.
func TestALossIsSaidOnce(t *testing.T) {
	t.Parallel()
	err := loseTheRun(t, context.Cause)
	lost, ok := errors.AsType[*holdfast.LostError](err)
	require.True(t, ok)
	require.Equal(t, lost.Error(), err.Error())
}

// loseTheRun runs a job whose lock is lost meanwhile, and whose work ends when its ctx does.
func loseTheRun(t *testing.T, end func(ctx context.Context) error) error {
	t.Helper()
	srv := redistest.Start(t)
	s := kit.Open(t, srv.Addr(), &holdfast.Options{Lease: 6 * time.Second})
	ran, err := once.New(s, report, time.Hour, nil).Run(t.Context(), func(ctx context.Context) error {
		srv.Do(t, "DEL", report)
		<-ctx.Done()
		return end(ctx)
	})
	require.True(t, ran)
	return err
}

// A ctx that has ended is why Every does, also if it ends when a lock has just been lost before the run.
func TestEveryEndsWithItsContextAfterALoss(t *testing.T) {
	t.Parallel()
	srv, p := kit.StartProxied(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	s := kit.Open(t, p.Addr(), &holdfast.Options{Observer: &holdfast.Observer{
		Acquire: func(context.Context, holdfast.Subject) func(holdfast.Acquired) {
			return func(a holdfast.Acquired) {
				if a.Err != nil {
					stop()
				}
			}
		},
	}})
	require.NoError(t, kit.Lock(t, ctx, rlock.New(s, "x", nil)).Release()) // now the server's clock is known
	leave, ended := p.On(kit.ScriptNamed("rlock_acquire"), proxy.Stall, proxy.Second), make(chan error, 1)
	go func() { ended <- once.Every(ctx, s, report, time.Hour, fine) }()
	leave.Wait(t, 1)
	srv.Do(t, "DEL", report)
	leave.Release()
	require.ErrorIs(t, kit.Within(t, kit.LongestWait, ended, "the end"), context.Canceled)
}

// A run that loses its lock ends Every.
func TestEveryLearnsOfALoss(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := kit.Open(t, srv.Addr(), &holdfast.Options{Lease: 6 * time.Second})
	runs := 0
	err := once.Every(t.Context(), s, report, time.Hour, func(ctx context.Context) error {
		if runs++; runs > 1 {
			return errWork
		}
		srv.Do(t, "DEL", report)
		<-ctx.Done()
		return nil
	})
	require.ErrorIs(t, err, holdfast.ErrLost)
	require.Equal(t, 1, runs)
}

// A run that panics has run: it is skipped, or taken over.
func TestARunThatPanics(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := kit.Open(t, srv.Addr(), nil)
	explode := func(context.Context) error { panic("no toner") }
	require.PanicsWithValue(t, "no toner", func() {
		_, _ = once.New(s, report, time.Hour, takeOver).Run(t.Context(), explode)
	})
	require.Zero(t, lasts(t, srv))
	require.PanicsWithValue(t, "no toner", func() {
		_, _ = once.New(s, report, time.Hour, nil).Run(t.Context(), explode)
	})
	requireRun(t, s, time.Hour, false)
}

// Wrong intervals are refused before anything is sent, and so are attempts of an owner that runs the job.
func TestMistakesOfJobs(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := kit.Open(t, srv.Addr(), nil)
	ran, err := once.New(s, report, time.Millisecond, nil).Run(t.Context(), fine)
	require.False(t, ran)
	require.EqualError(t, err, `once "cron:report": the interval is 1ms, must be at least 10ms`)
	require.ErrorContains(t, once.Every(t.Context(), s, "", time.Hour, fine), "name")
	require.Empty(t, srv.Keyspace(t))
	_, err = once.New(s, report, time.Hour, nil).Run(t.Context(), func(ctx context.Context) error {
		_, err := once.New(s, report, time.Hour, nil).Run(ctx, fine)
		return err
	})
	require.ErrorIs(t, err, holdfast.ErrAlreadyHeld)
}

// A job whose success the server does not learn of is kept by the session, which renews it.
func TestASuccessThatIsNotLearnedOfIsKept(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	p := proxy.Start(t, srv.Addr())
	s, other := kit.Open(t, p.Addr(), nil), kit.Open(t, srv.Addr(), nil)
	const interval = 12 * time.Second
	ran, err := once.New(s, report, interval, takeOver).Run(t.Context(), func(context.Context) error {
		p.On(kit.ScriptNamed("rlock_acquire"), proxy.Answer("-NOPERM no"), proxy.EveryTime)
		return nil
	})
	require.NoError(t, err)
	require.True(t, ran)
	requireRun(t, other, interval, false)
	kit.Await(t, "the end of the interval", func() bool { return srv.Int(t, "EXISTS", report) == 0 })
}

// The session goes on telling the server of a success, and can be closed when that has learned of it.
func TestASuccessIsLearnedOfLater(t *testing.T) {
	t.Parallel()
	srv, p := kit.StartProxied(t)
	s, other := kit.Open(t, p.Addr(), nil), kit.Open(t, srv.Addr(), nil)
	ran, err := once.New(s, report, time.Hour, takeOver).Run(t.Context(), func(context.Context) error {
		p.On(kit.ScriptNamed("rlock_acquire"), proxy.Answer("-NOPERM no"), proxy.First)
		return nil
	})
	require.NoError(t, err)
	require.True(t, ran)
	kit.Await(t, "the hold that is left alone", func() bool {
		all, err := rlock.New(other, report, nil).Holders(t.Context())
		require.NoError(t, err)
		return len(all) == 1 && all[0].Count == 1 && all[0].Lease > time.Minute
	})
	require.NoError(t, s.Close())
	requireRun(t, other, time.Hour, false)
}

// A lock that is lost before the run has begun is no end of Every, and to Run no end of its ctx.
func TestALossBeforeTheRun(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(t *testing.T, srv *redistest.Server, p *proxy.Proxy){
		"forgotten": func(t *testing.T, srv *redistest.Server, _ *proxy.Proxy) { srv.Do(t, "DEL", report) },
		"run out": func(_ *testing.T, _ *redistest.Server, p *proxy.Proxy) {
			p.StallNew(true)
			p.StallAll()
			kit.SleepUntil(time.Now().Add(2500 * time.Millisecond))
			p.ResumeAll()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv, p := kit.StartProxied(t)
			s := kit.Open(t, p.Addr(), &holdfast.Options{Lease: 2 * time.Second})
			require.NoError(t, kit.Lock(t, t.Context(), rlock.New(s, "x", nil)).Release())
			// Now the server's clock is known.
			losing := func(call func() error) error {
				leave, ended := p.On(kit.ScriptNamed("rlock_acquire"), proxy.Stall, proxy.Second), make(chan error, 1)
				go func() { ended <- call() }()
				leave.Wait(t, 1)
				lose(t, srv, p)
				leave.Release()
				return kit.Within(t, 20*time.Second, ended, "the end")
			}
			var ran bool
			err := losing(func() (err error) {
				ran, err = once.New(s, report, time.Hour, nil).Run(t.Context(), fine)
				return err
			})
			require.False(t, ran)
			require.ErrorIs(t, err, holdfast.ErrLost)
			require.NotErrorIs(t, err, context.Canceled)

			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			err = losing(func() error {
				return once.Every(ctx, s, report, time.Hour, func(context.Context) error {
					ran = true
					stop()
					return nil
				})
			})
			require.True(t, ran, "it has ended with %v", err)
			require.ErrorIs(t, err, context.Canceled)
		})
	}
}

// A run that has succeeded does not wait for ever to tell a server that stands still.
func TestASuccessIsNotToldForEver(t *testing.T) {
	t.Parallel()
	_, p := kit.StartProxied(t)
	s := kit.Open(t, p.Addr(), &holdfast.Options{Lease: time.Minute})
	ended := make(chan error, 1)
	go func() {
		_, err := once.New(s, report, time.Hour, takeOver).Run(t.Context(), func(context.Context) error {
			p.On(kit.ScriptNamed("rlock_acquire"), proxy.DropReply, proxy.EveryTime)
			return nil
		})
		ended <- err
	}()
	require.NoError(t, kit.Within(t, 12*time.Second, ended, "the end of the run"))
}

// Of several sessions one runs the job at a time, and at most once per interval.
func TestEveryRunsAJobOncePerInterval(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	const sessions, runs, interval = 4, 5, 1200 * time.Millisecond
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var (
		mu    sync.Mutex
		began []time.Time
		loops sync.WaitGroup
	)
	for range sessions {
		s := kit.Open(t, srv.Addr(), &holdfast.Options{Lease: kit.WorkerLease})
		loops.Go(func() {
			err := once.Every(ctx, s, report, interval, func(context.Context) error {
				mu.Lock()
				defer mu.Unlock()
				if began = append(began, time.Now()); len(began) == runs {
					stop()
				}
				return nil
			})
			require.ErrorIs(t, err, context.Canceled) //nolint:testifylint // it ends only this goroutine
		})
	}
	loops.Wait()
	require.GreaterOrEqual(t, len(began), runs)
	for i := 1; i < len(began); i++ {
		// The lock began before its run did, which may have been held up.
		require.Greater(t, began[i].Sub(began[0]), time.Duration(i)*interval-time.Second/2)
	}
}

// A job that nobody runs is due an interval after its last run began, also for a process that has last looked while
// that run had the lock for a whole lease.
func TestAShortJobIsRunOnTimeByTwoProcesses(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	const runs, interval = 8, time.Second
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	began := make(chan time.Time, 2*runs)
	var loops sync.WaitGroup
	for range 2 {
		s := kit.Open(t, srv.Addr(), nil)
		loops.Go(func() {
			_ = once.Every(ctx, s, report, interval, func(context.Context) error {
				began <- time.Now()
				return nil
			})
		})
	}
	last, still := <-began, kit.Stillness()
	for range runs {
		next := kit.Within(t, 10*time.Second, began, "the next run")
		require.Less(t, next.Sub(last), 3*interval+still())
		last = next
	}
	stop()
	loops.Wait()
}

// runJob runs the job until it is killed.
func runJob(args []string) {
	s := kit.OpenWorker(args[0], kit.WorkerLease)
	opts := &once.Options{TakeOver: args[1] == "take over"}
	_, err := once.New(s, report, time.Hour, opts).Run(context.Background(), func(context.Context) error {
		worker.Say("runs")
		<-worker.Stopped()
		return nil
	})
	kit.Must(err)
	kit.Must(s.Close())
}

// A job whose process dies is skipped for the interval, or taken over when its lease is over.
func TestAJobThatDies(t *testing.T) {
	t.Parallel()
	for name, over := range map[string]bool{"skip": false, "take over": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t)
			s := kit.Open(t, srv.Addr(), nil)
			runs := make(chan struct{}, 1)
			w := worker.Start(t, func(string) { runs <- struct{}{} }, "runs a job", srv.Addr(), name)
			kit.Within(t, kit.LongestWait, runs, "the run of another process")
			requireRun(t, s, time.Hour, false)
			w.Kill()
			if !over {
				requireRun(t, s, time.Hour, false)
				require.Greater(t, lasts(t, srv), time.Hour-time.Minute)
				return
			}
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			err := once.Every(ctx, s, report, time.Hour, func(context.Context) error {
				stop()
				return nil
			})
			require.ErrorIs(t, err, context.Canceled)
		})
	}
}

// A job is an rlock: whoever holds that keeps the job from running, and sees who runs it.
func TestAJobIsALock(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := kit.Open(t, srv.Addr(), nil)
	hold := kit.Lock(t, t.Context(), rlock.New(s, report, nil))
	requireRun(t, s, time.Hour, false)
	require.NoError(t, hold.Release())
	requireRun(t, s, time.Hour, true)
	all, err := rlock.New(s, report, nil).Holders(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Contains(t, all[0].ID, s.ID())
}

// When the interval of such a job is over, the own owner is not told that it has the job already.
func TestTheEndOfAKeptJobForItsOwnOwner(t *testing.T) {
	t.Parallel()
	_, p := kit.StartProxied(t)
	s := kit.Open(t, p.Addr(), nil)
	owner := holdfast.NewOwner(t.Context())
	job := once.New(s, report, 15*time.Millisecond, takeOver)
	for began := time.Now(); time.Since(began) < time.Duration(kit.Stressed(1500, 4000))*time.Millisecond; {
		var refused *proxy.Rule
		ran, err := job.Run(owner, func(context.Context) error {
			refused = p.On(kit.ScriptNamed("rlock_acquire"), proxy.Answer("-NOPERM no"), proxy.EveryTime)
			return nil
		})
		require.NoError(t, err)
		if !ran { // this process stood still, and the server keeps others out
			continue
		}
		ends := make(chan error, 3)
		for range cap(ends) {
			go func() {
				var err error
				for err == nil {
					_, err = job.Run(owner, fine)
				}
				ends <- err
			}()
		}
		for range cap(ends) {
			require.NotErrorIs(t, <-ends, holdfast.ErrAlreadyHeld)
		}
		refused.Remove()
	}
}

// A job that its session keeps for the rest of the interval is not due, for the owner that has run it neither.
func TestAKeptJobIsNotDueForItsOwnOwner(t *testing.T) {
	t.Parallel()
	_, p := kit.StartProxied(t)
	s := kit.Open(t, p.Addr(), nil)
	owner := holdfast.NewOwner(t.Context())
	var refused *proxy.Rule
	ran, err := once.New(s, report, 10*time.Second, takeOver).Run(owner, func(context.Context) error {
		refused = p.On(kit.ScriptNamed("rlock_acquire"), proxy.Answer("-NOPERM no"), proxy.EveryTime)
		return nil
	})
	require.NoError(t, err)
	require.True(t, ran)
	ran, err = once.New(s, report, 10*time.Second, takeOver).Run(owner, fine)
	require.NoError(t, err)
	require.False(t, ran)
	over, end := context.WithCancel(owner)
	end()
	_, err = once.New(s, report, 10*time.Second, takeOver).Run(over, fine)
	require.ErrorIs(t, err, context.Canceled)
	_, err = rlock.New(s, report, &rlock.Options{NonReentrant: true}).TryLock(owner)
	require.ErrorIs(t, err, holdfast.ErrAlreadyHeld)
	_, err = rlock.New(s, report, nil).ForceUnlock(t.Context())
	require.NoError(t, err)
	refused.Remove()
	ran, err = once.New(s, report, 10*time.Second, takeOver).Run(owner, fine)
	require.NoError(t, err)
	require.True(t, ran, "by force it is due")

	ctx, stop := context.WithCancel(owner)
	defer stop()
	const every = "every"
	began, runs := time.Now(), 0
	err = once.New(s, every, 2*time.Second, takeOver).Every(ctx, func(ctx context.Context) error {
		if runs++; runs == 2 {
			stop()
			return nil
		}
		for _, n := range []proxy.Times{proxy.First, proxy.Second} { // also when it is asked again, after a second
			p.On(kit.ScriptNamed("rlock_acquire"), proxy.Answer("-NOPERM no"), n)
		}
		return nil
	})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 2, runs)
	require.Greater(t, time.Since(began), 1900*time.Millisecond)
}
