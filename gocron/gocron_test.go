package holdfastgocron_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	holdfastgocron "github.com/holdfast-go/holdfast/gocron"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/leader"
	"github.com/holdfast-go/holdfast/rlock"
)

// schedule starts a scheduler whose job runs again and again, and returns where it tells so.
func schedule(t *testing.T, opt gocron.SchedulerOption) <-chan struct{} {
	t.Helper()
	runs := make(chan struct{}, 1000)
	scheduler, err := gocron.NewScheduler(opt)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, scheduler.Shutdown()) })
	_, err = scheduler.NewJob(gocron.DurationJob(10*time.Millisecond), gocron.NewTask(func() { runs <- struct{}{} }),
		gocron.WithName("report"))
	require.NoError(t, err)
	scheduler.Start()
	return runs
}

func awaitRun(t *testing.T, runs <-chan struct{}) {
	t.Helper()
	select {
	case <-runs:
	case <-time.After(10 * time.Second):
		require.Fail(t, "the job does not run")
	}
}

func awaitLeader(t *testing.T, e *holdfastgocron.Elector) {
	t.Helper()
	require.Eventually(t, func() bool { return e.IsLeader(t.Context()) == nil }, 10*time.Second, time.Millisecond)
}

func TestJobsRunWhereTheLeaderIs(t *testing.T) {
	server := holdfasttest.NewServer(t)
	first := holdfastgocron.NewElector(server.Open(nil), "billing")
	awaitLeader(t, first)
	second := holdfastgocron.NewElector(server.Open(nil), "billing")
	defer second.Close()
	here, there := schedule(t, gocron.WithDistributedElector(first)), schedule(t, gocron.WithDistributedElector(second))
	for range 3 {
		awaitRun(t, here)
	}
	require.Empty(t, there)
	require.ErrorIs(t, second.IsLeader(t.Context()), holdfastgocron.ErrNotLeader)
	_, leads := second.Term()
	require.False(t, leads)

	term, leads := first.Term()
	require.True(t, leads)
	first.Close()
	require.Error(t, term.Err())
	require.ErrorIs(t, first.IsLeader(t.Context()), holdfastgocron.ErrNotLeader)
	awaitRun(t, there)
	next, leads := second.Term()
	require.True(t, leads)
	require.Greater(t, leader.Term(next), leader.Term(term))
}

func TestAnElectorSaysWhyItDoesNotStand(t *testing.T) {
	session := holdfasttest.Open(t)
	e := holdfastgocron.NewElector(session, "billing")
	defer e.Close()
	awaitLeader(t, e)
	require.NoError(t, session.Close())
	require.Eventually(t, func() bool {
		return errors.Is(e.IsLeader(context.Background()), holdfast.ErrClosed)
	}, 10*time.Second, time.Millisecond)
	e.Close()
	require.ErrorIs(t, e.IsLeader(context.Background()), holdfast.ErrClosed)
}

// refused returns an elector that cannot stand, and the latch that has its name.
func refused(t *testing.T, session *holdfast.Session) (*holdfastgocron.Elector, *latch.Latch) {
	t.Helper()
	another := latch.New(session, "billing")
	_, err := another.TrySetCount(t.Context(), 1)
	require.NoError(t, err)
	e := holdfastgocron.NewElector(session, "billing")
	t.Cleanup(e.Close)
	require.Eventually(t, func() bool {
		return errors.Is(e.IsLeader(t.Context()), holdfast.ErrWrongKind)
	}, 10*time.Second, time.Millisecond)
	return e, another
}

func TestAnElectorThatWasRefusedStandsAgain(t *testing.T) {
	e, another := refused(t, holdfasttest.Open(t))
	require.NoError(t, another.CountDown(t.Context()))
	awaitLeader(t, e)
}

func TestARunOfAJobIsOnOneMachine(t *testing.T) {
	server := holdfasttest.NewServer(t)
	here := holdfastgocron.NewLocker(server.Open(nil), time.Minute)
	there := holdfastgocron.NewLocker(server.Open(nil), time.Minute)
	lock, err := here.Lock(t.Context(), "report")
	require.NoError(t, err)
	_, err = there.Lock(t.Context(), "report")
	require.ErrorIs(t, err, holdfast.ErrBusy)
	require.NoError(t, lock.Unlock(t.Context()))
	_, err = there.Lock(t.Context(), "report") // its clock is late
	require.ErrorIs(t, err, holdfast.ErrBusy)
	server.Advance(time.Minute)
	lock, err = there.Lock(t.Context(), "report")
	require.NoError(t, err)
	require.NoError(t, lock.Unlock(t.Context()))

	server.Advance(time.Minute)
	runs := schedule(t, gocron.WithDistributedLocker(holdfastgocron.NewLocker(server.Open(nil), 0)))
	awaitRun(t, runs)
	awaitRun(t, runs)
}

// A job that begins again while it still runs is refused here as it is elsewhere, also if its context, which is that of
// gocron.WithContext, has an owner.
func TestARunOfAJobHasAnOwnerOfItsOwn(t *testing.T) {
	locker := holdfastgocron.NewLocker(holdfasttest.Open(t), 0)
	ctx := holdfast.NewOwner(t.Context())
	lock, err := locker.Lock(ctx, "report")
	require.NoError(t, err)
	_, err = locker.Lock(ctx, "report")
	require.ErrorIs(t, err, holdfast.ErrBusy)
	require.NoError(t, lock.Unlock(ctx))
}

// asked tells of each decision of an Elector or a Locker.
type asked chan error

type askedElector struct {
	*holdfastgocron.Elector
	asked
}

func (a askedElector) IsLeader(ctx context.Context) error {
	err := a.Elector.IsLeader(ctx)
	a.asked <- err
	return err
}

type askedLocker struct {
	*holdfastgocron.Locker
	asked
}

func (a askedLocker) Lock(ctx context.Context, key string) (gocron.Lock, error) {
	lock, err := a.Locker.Lock(ctx, key)
	a.asked <- err
	return lock, err
}

// What gocron's own tests ask of an elector and of a locker: of three schedulers that begin at once, one runs the job.
// There they share one, as processes cannot; here each has its own session.
func TestOneOfThreeSchedulersRunsTheJob(t *testing.T) {
	for name, test := range map[string]struct {
		option  func(t *testing.T, s *holdfast.Session, first bool, a asked) gocron.SchedulerOption
		refusal error
	}{
		"elector": {func(t *testing.T, s *holdfast.Session, first bool, a asked) gocron.SchedulerOption {
			t.Helper()
			e := holdfastgocron.NewElector(s, "billing")
			t.Cleanup(e.Close)
			if first {
				awaitLeader(t, e)
			}
			return gocron.WithDistributedElector(askedElector{e, a})
		}, holdfastgocron.ErrNotLeader},
		"locker": {func(_ *testing.T, s *holdfast.Session, _ bool, a asked) gocron.SchedulerOption {
			return gocron.WithDistributedLocker(askedLocker{holdfastgocron.NewLocker(s, time.Minute), a})
		}, holdfast.ErrBusy},
	} {
		t.Run(name, func(t *testing.T) {
			server := holdfasttest.NewServer(t)
			decisions, runs := make(asked, 3), make(chan struct{}, 3)
			schedulers := make([]gocron.Scheduler, 3)
			for i := range schedulers {
				var err error
				schedulers[i], err = gocron.NewScheduler(test.option(t, server.Open(nil), i == 0, decisions))
				require.NoError(t, err)
				_, err = schedulers[i].NewJob(gocron.DurationJob(time.Hour),
					gocron.NewTask(func() { runs <- struct{}{} }), gocron.WithName("report"),
					gocron.WithStartAt(gocron.WithStartImmediately()))
				require.NoError(t, err)
			}
			for _, scheduler := range schedulers {
				scheduler.Start()
			}
			refused := 0
			for range schedulers {
				select {
				case err := <-decisions:
					if err != nil {
						require.ErrorIs(t, err, test.refusal)
						refused++
					}
				case <-time.After(10 * time.Second):
					require.Fail(t, "a scheduler does not ask")
				}
			}
			for _, scheduler := range schedulers {
				require.NoError(t, scheduler.Shutdown()) // it waits for the job
			}
			require.Equal(t, 2, refused)
			require.Len(t, runs, 1)
		})
	}
}

// A time that no lock can be kept for is refused before anything is sent, by its own name.
func TestALockerRefusesATimeThatIsTooShort(t *testing.T) {
	s := holdfasttest.NewServer(t).Open(nil)
	for _, d := range []time.Duration{-time.Second, time.Millisecond} {
		_, err := holdfastgocron.NewLocker(s, d).Lock(t.Context(), "job")
		require.EqualError(t, err, "holdfastgocron: atLeast is "+d.String()+", must be 0 or at least 10ms")
		holdfasttest.AssertFree(t, rlock.New(s, "job", nil))
	}
}

// What was taken goes back if the hold that keeps others out cannot be had.
func TestALockerThatFailsHalfWayKeepsNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := holdfasttest.NewServer(t).Open(&holdfast.Options{Observer: &holdfast.Observer{
		Hold: func(context.Context, holdfast.Subject) func(holdfast.Ended) {
			cancel()
			return nil
		},
	}})
	_, err := holdfastgocron.NewLocker(s, time.Minute).Lock(ctx, "report")
	require.ErrorIs(t, err, context.Canceled)
	holdfasttest.AssertFree(t, rlock.New(s, "report", nil))
}

// A lock that is lost half-way is no end of the caller's context.
func TestALockerThatLosesTheLockHalfWay(t *testing.T) {
	server := holdfasttest.NewServer(t)
	s := server.Open(&holdfast.Options{Observer: &holdfast.Observer{
		Hold: func(context.Context, holdfast.Subject) func(holdfast.Ended) {
			server.Lose("report")
			return nil
		},
	}})
	_, err := holdfastgocron.NewLocker(s, time.Minute).Lock(t.Context(), "report")
	require.ErrorIs(t, err, holdfast.ErrLost)
	require.NotErrorIs(t, err, context.Canceled)
}

// Nor does a Locker keep anything if an observer panics.
func TestALockerKeepsNothingIfAnObserverPanics(t *testing.T) {
	holds := 0
	s := holdfasttest.NewServer(t).Open(&holdfast.Options{Observer: &holdfast.Observer{
		Hold: func(context.Context, holdfast.Subject) func(holdfast.Ended) {
			if holds++; holds == 2 {
				panic("observer")
			}
			return nil
		},
	}})
	require.PanicsWithValue(t, "observer", func() {
		_, _ = holdfastgocron.NewLocker(s, time.Minute).Lock(t.Context(), "report")
	})
	holdfasttest.AssertFree(t, rlock.New(s, "report", nil))
}

// When Close returns, the term is over, and whoever observes it has been told.
func TestCloseOfAnElectorWaitsForTheEndOfTheTerm(t *testing.T) {
	var told atomic.Bool
	s := holdfasttest.NewServer(t).Open(&holdfast.Options{Observer: &holdfast.Observer{
		Term: func(context.Context, holdfast.Subject, int64) func(holdfast.Ended) {
			return func(holdfast.Ended) {
				time.Sleep(50 * time.Millisecond)
				told.Store(true)
			}
		},
	}})
	e := holdfastgocron.NewElector(s, "billing")
	awaitLeader(t, e)
	e.Close()
	require.True(t, told.Load())
	e.Close()
}

// An elector whose session has ended leaves no goroutine, also without a Close.
func TestAnElectorEndsWithItsSession(t *testing.T) {
	session := holdfasttest.Open(t)
	awaitLeader(t, holdfastgocron.NewElector(session, "billing"))
	require.NoError(t, session.Close())
	require.Eventually(t, func() bool {
		stacks := make([]byte, 1<<20)
		return !strings.Contains(string(stacks[:runtime.Stack(stacks, true)]), "gocron.NewElector")
	}, 10*time.Second, time.Millisecond)
}

// An elector that stands again does not say why it did not stand before.
func TestAnElectorThatStandsGivesNoReason(t *testing.T) {
	server := holdfasttest.NewServer(t)
	session := server.Open(nil)
	e, _ := refused(t, session)
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}, DisableCache: true})
	require.NoError(t, err)
	defer client.Close()
	const another = "redis.call('DEL', KEYS[1]) redis.call('HSET', KEYS[1], 'another', 1) " +
		"redis.call('PEXPIRE', KEYS[1], 60000)"
	require.NoError(t, client.Do(t.Context(), client.B().Eval().Script(another).Numkeys(1).Key("billing").Build()).
		NonRedisError())
	require.Eventually(t, func() bool {
		all, err := leader.Candidates(t.Context(), session, "billing")
		return err == nil && len(all) == 1
	}, 10*time.Second, time.Millisecond)
	require.Equal(t, holdfastgocron.ErrNotLeader, e.IsLeader(t.Context()))
}

// What keeps others out when the job has ended outlives the session.
func TestOthersAreKeptOutThoughTheSessionIsClosed(t *testing.T) {
	server := holdfasttest.NewServer(t)
	session := server.Open(nil)
	lock, err := holdfastgocron.NewLocker(session, time.Minute).Lock(t.Context(), "report")
	require.NoError(t, err)
	require.NoError(t, lock.Unlock(t.Context()))
	require.NoError(t, session.Close())
	_, err = holdfastgocron.NewLocker(server.Open(nil), time.Minute).Lock(t.Context(), "report")
	require.ErrorIs(t, err, holdfast.ErrBusy)
}
