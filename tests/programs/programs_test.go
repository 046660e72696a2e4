package programs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/rlock"
	p02 "github.com/holdfast-go/holdfast/tests/programs/p02_trywaitlease"
	p03 "github.com/holdfast-go/holdfast/tests/programs/p03_twomethods"
	p04 "github.com/holdfast-go/holdfast/tests/programs/p04_http"
	p05 "github.com/holdfast-go/holdfast/tests/programs/p05_notshared"
	p06 "github.com/holdfast-go/holdfast/tests/programs/p06_shared"
	p07 "github.com/holdfast-go/holdfast/tests/programs/p07_longjob"
	p09 "github.com/holdfast-go/holdfast/tests/programs/p09_barrier"
	p12 "github.com/holdfast-go/holdfast/tests/programs/p12_cron"
	p15 "github.com/holdfast-go/holdfast/tests/programs/p15_operate"
	p16 "github.com/holdfast-go/holdfast/tests/programs/p16_pool"
	p18 "github.com/holdfast-go/holdfast/tests/programs/p18_tenants"
	p20 "github.com/holdfast-go/holdfast/tests/programs/p20_etag"
	p21 "github.com/holdfast-go/holdfast/tests/programs/p21_giveway"
	p22 "github.com/holdfast-go/holdfast/tests/programs/p22_rotate"
	p23 "github.com/holdfast-go/holdfast/tests/programs/p23_rounds"
	"github.com/holdfast-go/holdfast/tests/redistest"
	"github.com/holdfast-go/holdfast/tests/webtest"
)

func open(t *testing.T) (*redistest.Server, *holdfast.Session) {
	t.Helper()
	srv := redistest.Start(t)
	s, err := holdfast.Open(rueidis.ClientOption{InitAddress: []string{srv.Addr()}}, &holdfast.Options{Anonymous: true})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	redistest.Limit(t, func() { _ = s.Close() })
	return srv, s
}

func TestTryWaitLease(t *testing.T) {
	_, s := open(t)
	busy, err := p02.Ship(t.Context(), s, "42")
	assert.NoError(t, err)
	assert.False(t, busy)

	hold, err := rlock.New(s, "orders:42", nil).Lock(t.Context())
	require.NoError(t, err)
	began := time.Now()
	busy, err = p02.Ship(t.Context(), s, "42")
	assert.NoError(t, err)
	assert.True(t, busy)
	assert.GreaterOrEqual(t, time.Since(began), 3*time.Second)
	require.NoError(t, hold.Release())
}

func TestTwoMethods(t *testing.T) {
	_, s := open(t)
	ctx, err := p03.Before(t.Context(), rlock.New(s, "x", nil))
	require.NoError(t, err)
	assert.NoError(t, p03.After(ctx))
}

func TestHandler(t *testing.T) {
	_, s := open(t)
	paid := make(chan struct{})
	release := make(chan struct{})
	mux := http.NewServeMux()
	mux.Handle("/orders/{id}", p04.Handler(s, func(ctx context.Context, id string) error {
		if id == "slow" {
			close(paid)
			<-release
		}
		if id == "bad" {
			return errors.New("no funds")
		}
		return ctx.Err()
	}))
	server := httptest.NewServer(mux)
	defer server.Close()
	get := func(id string) int { return webtest.Get(t, server, "/orders/"+id) }
	assert.Equal(t, http.StatusOK, get("1"))
	assert.Equal(t, http.StatusInternalServerError, get("bad"))

	first := make(chan int, 1)
	go func() { first <- get("slow") }()
	redistest.Receive(t, paid, "the payment")
	assert.Equal(t, http.StatusConflict, get("slow"), "another request has the lock")
	close(release)
	assert.Equal(t, http.StatusOK, redistest.Receive(t, first, "the answer"))
}

func TestWorkersThatDoNotShareTheOwner(t *testing.T) {
	_, s := open(t)
	var inside atomic.Int64
	shards := make([]string, 20)
	for i := range shards {
		shards[i] = fmt.Sprint(i)
	}
	assert.NoError(t, p05.Reindex(t.Context(), rlock.New(s, "ledger", nil), shards,
		func(context.Context, string) error {
			assert.EqualValues(t, 1, inside.Add(1))
			inside.Add(-1)
			return nil
		}))
}

func TestWorkersThatShareTheOwner(t *testing.T) {
	_, s := open(t)
	l := rlock.New(s, "index", nil)
	ready := make(chan struct{}, 4)
	assert.NoError(t, p06.Rebuild(t.Context(), l, []string{"a", "b", "c", "d"},
		func(ctx context.Context, _ string) error {
			return holdfast.Do(ctx, l.Lock, func(context.Context) error {
				ready <- struct{}{}
				for len(ready) < cap(ready) { // all of them are inside at once
					time.Sleep(time.Millisecond)
				}
				return nil
			})
		}))
}

func TestLongJobStopsWhenTheLockIsLost(t *testing.T) {
	_, s := open(t)
	l := rlock.New(s, "import", nil)
	rows := make(chan string, 1)
	saved := make(chan string, 1)
	done := make(chan error, 1)
	go func() {
		done <- p07.Import(t.Context(), l, rows, func(_ context.Context, row string) error {
			saved <- row
			return nil
		})
	}()
	rows <- "1"
	assert.Equal(t, "1", redistest.Receive(t, saved, "a row"))
	was, err := l.ForceUnlock(t.Context())
	require.NoError(t, err)
	assert.True(t, was)
	err = redistest.Receive(t, done, "the end")
	assert.ErrorIs(t, err, holdfast.ErrLost)
	lost, ok := errors.AsType[*holdfast.LostError](err)
	require.True(t, ok)
	assert.Equal(t, "import", lost.Name)
}

func TestOperate(t *testing.T) {
	srv, s := open(t)
	l := fairlock.New(s, "prod:report", nil) // the name that the tool's mapper makes
	hold, err := l.Lock(t.Context())
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	waited := make(chan error)
	go func() {
		_, err := l.Lock(ctx)
		waited <- err
	}()
	var out strings.Builder
	require.Eventually(t, func() bool {
		out.Reset()
		assert.NoError(t, p15.Report(t.Context(), "redis://"+srv.Addr(), "report", &out))
		return strings.Contains(out.String(), "\n1. "+s.ID())
	}, 5*time.Second, 10*time.Millisecond)
	assert.True(t, strings.HasPrefix(out.String(), "held by "+hold.ID()+", 1 times, "), out.String())
	cancel()
	assert.ErrorIs(t, redistest.Receive(t, waited, "the end of the wait"), context.Canceled)
	require.NoError(t, hold.Release())

	taken, err := rlock.New(s, "stuck", nil).Lock(t.Context())
	require.NoError(t, err)
	was, err := p15.Free(t.Context(), s, "stuck")
	require.NoError(t, err)
	assert.True(t, was)
	assert.ErrorIs(t, taken.Err(), holdfast.ErrLost)

	steps := 0
	step := func(context.Context) error { steps++; return nil }
	require.NoError(t, p15.Batch(t.Context(), s, []func(context.Context) error{step, step}))
	assert.Equal(t, 2, steps)
}

func TestBarrier(t *testing.T) {
	const workers = 5
	srv, s := open(t)
	var ready, done atomic.Int64
	var all errgroup.Group
	for range workers {
		all.Go(func() error {
			ready.Add(1)
			return p09.Work(t.Context(), s, "run 1", workers, func(context.Context) error {
				assert.EqualValues(t, workers, ready.Load(), "somebody worked before all were ready")
				done.Add(1)
				return nil
			})
		})
	}
	require.NoError(t, p09.Coordinate(t.Context(), s, "run 1", workers))
	assert.EqualValues(t, workers, done.Load())
	require.NoError(t, all.Wait())
	assert.Empty(t, srv.Keyspace(t))
}

func TestCron(t *testing.T) {
	_, s := open(t)
	runs := 0
	count := func(context.Context) error { runs++; return nil }
	for _, job := range []func(ctx context.Context) error{
		func(ctx context.Context) error { return p12.Nightly(ctx, s, count) },
		func(ctx context.Context) error {
			return p12.Nightly(ctx, s, func(ctx context.Context) error { // another node meanwhile
				return errors.Join(count(ctx), p12.Nightly(t.Context(), s, count))
			})
		},
		func(ctx context.Context) error { return p12.Hourly(ctx, s, count) },
		func(ctx context.Context) error { return p12.Hourly(ctx, s, count) },
	} {
		require.NoError(t, job(t.Context()))
	}
	assert.Equal(t, 3, runs, "once alone, once among two nodes, once in ten minutes")
}

func TestTenants(t *testing.T) {
	_, s := open(t)
	var all errgroup.Group
	inside := map[string]*atomic.Int64{"a": {}, "b": {}}
	for tenant, n := range inside {
		for range 10 {
			all.Go(func() error {
				return p18.Export(t.Context(), s, tenant, func(context.Context) error {
					assert.LessOrEqual(t, n.Add(1), int64(2))
					defer n.Add(-1)
					<-time.After(5 * time.Millisecond) // the work
					return nil
				})
			})
		}
	}
	require.NoError(t, all.Wait())
}

func TestPool(t *testing.T) {
	const size = 3
	_, s := open(t)
	p, err := p16.NewPool(t.Context(), s, size)
	require.NoError(t, err)
	var inside atomic.Int64
	var all errgroup.Group
	for range 20 {
		all.Go(func() error {
			return p.Run(t.Context(), func(context.Context) error {
				assert.LessOrEqual(t, inside.Add(1), int64(size))
				defer inside.Add(-1)
				<-time.After(5 * time.Millisecond) // the work
				return nil
			})
		})
	}
	require.NoError(t, all.Wait())
	require.NoError(t, p.Resize(t.Context(), 2))
	free, err := p.Free(t.Context())
	require.NoError(t, err)
	assert.Equal(t, size+2, free)
	taken, err := p.Stop(t.Context())
	require.NoError(t, err)
	assert.Equal(t, size+2, taken)
	assert.ErrorIs(t, p.Run(t.Context(), nil), holdfast.ErrBusy, "there was no permit within a second")
}

func TestETag(t *testing.T) {
	_, s := open(t)
	var mu sync.Mutex
	text, version, between, weak := "", 1, "", ""
	store := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		etag := fmt.Sprintf("%q", fmt.Sprint(version))
		switch {
		case r.Method == http.MethodGet:
			w.Header().Set("ETag", weak+etag)
			_, _ = io.WriteString(w, text)
			if between != "" { // somebody else has the lock, and writes
				text, version, between = text+between, version+1, ""
			}
		case r.Header.Get("If-Match") != etag:
			w.WriteHeader(http.StatusPreconditionFailed)
		default:
			text, version = string(body), version+1
		}
	}))
	defer store.Close()
	defer http.DefaultClient.CloseIdleConnections()
	require.NoError(t, p20.Append(t.Context(), s, store.URL, "one"))
	between = "two\n"
	require.ErrorContains(t, p20.Append(t.Context(), s, store.URL, "late"), "somebody has changed it")
	require.NoError(t, p20.Append(t.Context(), s, store.URL, "three"))
	weak = "W/"
	require.ErrorContains(t, p20.Append(t.Context(), s, store.URL, "four"), "no strong ETag")
	require.Equal(t, "one\ntwo\nthree\n", text)
}

// Whoever has the upload gives way when another one wants it, and that one continues.
func TestGiveWay(t *testing.T) {
	_, s := open(t)
	l := rlock.New(s, "upload:42", nil)
	began, gaveWay := make(chan struct{}), make(chan error, 1)
	var begun sync.Once
	go func() {
		gaveWay <- p21.Upload(t.Context(), l, func(context.Context) (bool, error) {
			begun.Do(func() { close(began) })
			<-time.After(time.Millisecond) // a part
			return true, nil
		})
	}()
	<-began
	stored := 0
	require.NoError(t, p21.Upload(t.Context(), l, func(context.Context) (bool, error) {
		stored++
		return stored < 3, nil
	}))
	require.ErrorIs(t, <-gaveWay, p21.ErrGaveWay)
	require.Equal(t, 3, stored)
}

// A new session takes over what jobs hold, and the old one is closed.
func TestRotate(t *testing.T) {
	srv, old := open(t)
	next, err := holdfast.Open(rueidis.ClientOption{InitAddress: []string{srv.Addr()}}, nil)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, next.Close()) })
	jobs := map[string]*holdfast.Hold{}
	for _, name := range []string{"import", "export"} {
		jobs[name], err = rlock.New(old, name, &rlock.Options{Fenced: true}).Lock(t.Context())
		require.NoError(t, err)
	}
	require.NoError(t, p22.Rotate(t.Context(), old, next, jobs))
	for name, hold := range jobs {
		require.NoError(t, hold.Err())
		require.EqualValues(t, 1, hold.Token())
		_, err := rlock.New(next, name, nil).TryLock(t.Context())
		require.ErrorIs(t, err, holdfast.ErrBusy)
		require.NoError(t, hold.Release())
	}
}

// Workers do the tasks of a round together; one leaves in the middle, and the others do its tasks.
func TestRounds(t *testing.T) {
	const workers, rounds, tasks = 3, 4, 5
	_, s := open(t)
	var mu sync.Mutex
	done := make([]int, rounds)
	errGone := errors.New("gone")
	var all errgroup.Group
	for worker := range workers {
		all.Go(func() error {
			err := p23.Rounds(t.Context(), s, "pages", workers, rounds, func(_ context.Context, round int) (bool, error) {
				mu.Lock()
				defer mu.Unlock()
				if round > 0 {
					assert.Equal(t, tasks, done[round-1], "a round begins before the last one is done")
				}
				if worker == 0 && round == 2 {
					return false, errGone
				}
				if done[round] == tasks {
					return false, nil
				}
				done[round]++
				return true, nil
			})
			if worker == 0 {
				assert.ErrorIs(t, err, errGone)
				return nil
			}
			return err
		})
	}
	require.NoError(t, all.Wait())
	require.Equal(t, []int{tasks, tasks, tasks, tasks}, done)
}

// A worker leaves in the middle of a step, and another one comes: all begin again at the checkpoint.
func TestTrain(t *testing.T) {
	const workers, steps = 3, 6
	_, s := open(t)
	var mu sync.Mutex
	var all errgroup.Group
	saved, done := 0, map[int]int{} // the checkpoint, and how often workers have done a step since then
	errGone := errors.New("gone")
	train := func(leavesAt int) error {
		return p23.Train(t.Context(), s, "model", workers, func(context.Context) (int, error) {
			mu.Lock()
			defer mu.Unlock()
			return saved, nil
		}, func(_ context.Context, step int) (last bool, err error) {
			mu.Lock()
			defer mu.Unlock()
			if step == leavesAt {
				return false, errGone
			}
			if done[step]++; step > 0 && step%2 == 0 {
				saved = step // all have done the steps before
			}
			return step == steps-1, nil
		})
	}
	for range workers - 1 {
		all.Go(func() error { return train(-1) })
	}
	require.ErrorIs(t, train(3), errGone)
	all.Go(func() error { return train(-1) })
	require.NoError(t, all.Wait())
	for step := range steps {
		assert.GreaterOrEqual(t, done[step], workers, step)
	}
	assert.Greater(t, done[2], workers, "it was done again")
}
