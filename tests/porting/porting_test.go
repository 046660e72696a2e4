package porting

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/semaphore"
	"github.com/holdfast-go/holdfast/tests/redistest"
	"github.com/holdfast-go/holdfast/tests/webtest"
	"github.com/holdfast-go/holdfast/tests/worker"
)

func TestMain(m *testing.M) {
	worker.Run(map[string]func([]string){"renderer": beRenderer})
	os.Exit(m.Run())
}

// connect opens a session, as each program does. It is anonymous, because tests look at what locks leave on the
// server.
func connect(t *testing.T, srv *redistest.Server) *holdfast.Session {
	t.Helper()
	session, err := holdfast.Open(rueidis.ClientOption{InitAddress: []string{srv.Addr()}},
		&holdfast.Options{Anonymous: true})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, session.Close()) })
	redistest.Limit(t, func() { _ = session.Close() })
	return session
}

// orderLog is a store in which no two callers may use one order at the same time.
type orderLog struct {
	mu     sync.Mutex // guards the rest
	states []string
}

func (l *orderLog) SetState(_ context.Context, id, state string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.states = append(l.states, id+" "+state)
	return nil
}

func TestShippingLocksTheOrderOnce(t *testing.T) {
	srv := redistest.Start(t)
	session := connect(t, srv)
	store := &orderLog{}
	order := rlock.New(connect(t, srv), "orders:42", nil) // as another program sees it
	orders := NewOrders(session, store, func(ctx context.Context, id string) error {
		_, err := order.TryLock(ctx)
		assert.ErrorIs(t, err, holdfast.ErrBusy, "%s is not locked", id)
		return nil
	})
	require.NoError(t, orders.Ship(t.Context(), "42"))
	require.NoError(t, orders.SetState(t.Context(), "42", "billed"))
	assert.Equal(t, []string{"42 shipped", "42 billed"}, store.states)
	assert.Empty(t, srv.Keyspace(t))

	hold, err := order.Lock(t.Context())
	require.NoError(t, err)
	began := time.Now()
	require.ErrorIs(t, orders.Ship(t.Context(), "42"), ErrOrderBusy)
	assert.GreaterOrEqual(t, time.Since(began), 3*time.Second)
	require.NoError(t, hold.Release())
}

// Two workers of one call are two owners: an order that is named twice is shipped twice, one after the other.
func TestWorkersOfOneCallExcludeEachOther(t *testing.T) {
	srv := redistest.Start(t)
	store := &orderLog{}
	var atWork [2]atomic.Int64
	orders := NewOrders(connect(t, srv), store, func(_ context.Context, id string) error {
		mine := &atWork[id[0]-'1']
		assert.EqualValues(t, 1, mine.Add(1))
		defer mine.Add(-1)
		<-time.After(20 * time.Millisecond)
		return nil
	})
	require.NoError(t, orders.ShipAll(t.Context(), []string{"1", "2", "1", "2", "1"}))
	slices.Sort(store.states)
	assert.Equal(t, []string{"1 shipped", "1 shipped", "1 shipped", "2 shipped", "2 shipped"}, store.states)
	assert.Empty(t, srv.Keyspace(t))
}

// beRenderer is a program that renders a report of so many pages with a permit that it was given.
func beRenderer(args []string) {
	session, err := holdfast.Open(rueidis.ClientOption{InitAddress: []string{args[0]}}, nil)
	if err == nil {
		defer session.Close()
		page := func(context.Context) error { worker.Say("page"); return nil }
		err = Render(context.Background(), session, args[1], []func(context.Context) error{page, page})
	}
	worker.Say("rendered: %v", err)
}

func TestAPermitIsGivenBackByAnotherProcess(t *testing.T) {
	srv := redistest.Start(t)
	session := connect(t, srv)
	heard := make(chan string, 10)
	pool, err := NewReportPool(t.Context(), session, func(_ context.Context, _, permit string) error {
		worker.Start(t, func(line string) { heard <- line }, "renderer", srv.Addr(), permit)
		return nil
	})
	require.NoError(t, err)
	require.NoError(t, pool.Start(t.Context(), "sales"))
	for _, want := range []string{"page", "page", "rendered: <nil>"} {
		select {
		case line := <-heard:
			assert.Equal(t, want, line)
		case <-time.After(10 * time.Second):
			t.Fatal("the renderer reports nothing")
		}
	}
	free, err := semaphore.NewExpirable(session, reports, nil).AvailablePermits(t.Context())
	require.NoError(t, err)
	assert.Equal(t, reportsMost, free)
}

func TestAPermitIsHandedOverOrGivenBack(t *testing.T) {
	srv := redistest.Start(t)
	sending := connect(t, srv)
	var sent []string
	pool, err := NewReportPool(t.Context(), sending, func(_ context.Context, report, permit string) error {
		if report == "broken" {
			return errors.New("nobody renders it")
		}
		sent = append(sent, permit)
		return nil
	})
	require.NoError(t, err)
	require.ErrorContains(t, pool.Start(t.Context(), "broken"), "nobody renders it")
	for range reportsMost {
		require.NoError(t, pool.Start(t.Context(), "sales"))
	}
	began := time.Now()
	require.ErrorIs(t, pool.Start(t.Context(), "sales"), ErrReportsBusy)
	assert.GreaterOrEqual(t, time.Since(began), 5*time.Second)
	require.NoError(t, sending.Close(), "a permit that was handed over is the receiver's")

	rendering := connect(t, srv)
	taken, err := semaphore.NewExpirable(rendering, reports, nil).AcquiredPermits(t.Context())
	require.NoError(t, err)
	assert.Equal(t, reportsMost, taken)
	require.NoError(t, Render(t.Context(), rendering, sent[0], nil))
	page := func(context.Context) error { return nil }
	require.ErrorIs(t, Render(t.Context(), rendering, sent[0], []func(context.Context) error{page}),
		holdfast.ErrNotHeld)
}

// priceList protects nothing: the race detector finds callers that use it at the same time and should not.
type priceList struct{ prices map[string]int }

func (l *priceList) Price(_ context.Context, sku string) (int, error) { return l.prices[sku], nil }

func (l *priceList) All(context.Context) (map[string]int, error) { return l.prices, nil }

func (l *priceList) Replace(_ context.Context, prices map[string]int) error {
	l.prices = nil
	<-time.After(5 * time.Millisecond)
	l.prices = prices
	return nil
}

func TestProgramsStartTogetherAndReadWholeCatalogs(t *testing.T) {
	const programs = 3
	srv := redistest.Start(t)
	list := &priceList{prices: map[string]int{"a": 0, "b": 0}}
	var ready atomic.Int64
	var all errgroup.Group
	for n := range programs {
		catalog := NewCatalog(connect(t, srv), list)
		all.Go(func() error {
			ready.Add(1)
			if err := catalog.AwaitStart(t.Context(), "7", programs); err != nil {
				return err
			}
			assert.EqualValues(t, programs, ready.Load())
			for i := range 5 {
				err := catalog.Replace(t.Context(), map[string]int{"a": 10*n + i, "b": 10*n + i},
					func(ctx context.Context, prices map[string]int) error {
						assert.Equal(t, map[string]int{"a": 10*n + i, "b": 10*n + i}, prices, "nobody else has written")
						return ctx.Err()
					})
				if err != nil {
					return err
				}
				if _, err := catalog.Price(t.Context(), "a"); err != nil {
					return err
				}
			}
			return nil
		})
	}
	require.NoError(t, all.Wait())
	assert.Empty(t, srv.Keyspace(t))
}

func TestOthersReadWhileTheNewPricesAreAnnounced(t *testing.T) {
	srv := redistest.Start(t)
	list := &priceList{}
	catalog, other := NewCatalog(connect(t, srv), list), NewCatalog(connect(t, srv), list)
	writing := rwlock.New(connect(t, srv), "catalog", nil).Write()
	require.NoError(t, catalog.Replace(t.Context(), map[string]int{"a": 1},
		func(ctx context.Context, _ map[string]int) error {
			price, err := other.Price(t.Context(), "a")
			require.NoError(t, err)
			assert.Equal(t, 1, price)
			_, err = writing.TryLock(t.Context())
			assert.ErrorIs(t, err, holdfast.ErrBusy)
			return ctx.Err()
		}))
}

func TestARequestHoldsItsDocument(t *testing.T) {
	srv := redistest.Start(t)
	session := connect(t, srv)
	inside, leave := make(chan struct{}), make(chan struct{})
	mux := http.NewServeMux()
	mux.Handle("/documents/{id}", Exclusive(session, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		hold, err := rlock.New(session, "documents:"+r.PathValue("id"), nil).TryLock(r.Context()) // the request's own
		if assert.NoError(t, err) {
			hold.Release()
		}
		if r.PathValue("id") == "slow" {
			close(inside)
			<-leave
		}
	})))
	server := httptest.NewServer(mux)
	defer server.Close()
	get := func(id string) int { return webtest.Get(t, server, "/documents/"+id) }
	assert.Equal(t, http.StatusOK, get("1"))
	first := make(chan int, 1)
	go func() { first <- get("slow") }()
	redistest.Receive(t, inside, "a request")
	assert.Equal(t, http.StatusConflict, get("slow"))
	close(leave)
	assert.Equal(t, http.StatusOK, redistest.Receive(t, first, "the answer"))
}

func TestALockIsTakenInOneMethodAndGivenBackInAnother(t *testing.T) {
	srv := redistest.Start(t)
	session := connect(t, srv)
	document := rlock.New(connect(t, srv), "documents:1", nil)

	ctx, err := Begin(t.Context(), session, "1")
	require.NoError(t, err)
	inner, err := Begin(ctx, session, "1")
	require.NoError(t, err)
	require.NoError(t, End(inner))
	_, err = document.TryLock(t.Context())
	require.ErrorIs(t, err, holdfast.ErrBusy)
	ended := make(chan error)
	go func() { ended <- End(ctx) }() // any goroutine may call it
	require.NoError(t, redistest.Receive(t, ended, "the end"))
	require.ErrorIs(t, ctx.Err(), context.Canceled)
	require.ErrorIs(t, End(t.Context()), holdfast.ErrNotHeld)

	saved := 0
	edit, err := Open(t.Context(), session, "1", func(context.Context) error { saved++; return nil })
	require.NoError(t, err)
	require.NoError(t, edit.Save(t.Context()))
	was, err := document.ForceUnlock(t.Context())
	require.NoError(t, err)
	require.True(t, was)
	require.ErrorIs(t, edit.Close(), holdfast.ErrLost)
	require.ErrorIs(t, edit.Save(t.Context()), holdfast.ErrNotHeld)
	assert.Equal(t, 1, saved)
}
