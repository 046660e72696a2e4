package scope

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var errEnded = errors.New("ended")

// A hold ends first by the clock, and later for its contexts.
type hold struct {
	mu       sync.Mutex
	contexts Contexts
	over     bool
}

func (h *hold) Err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over {
		return errEnded
	}
	return nil
}

// expire lets the clock end it; the contexts do not know yet.
func (h *hold) expire() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.over = true
}

func (h *hold) end() {
	h.expire()
	h.mu.Lock()
	last := h.contexts.Close()
	h.mu.Unlock()
	last.EndAll(errEnded)
}

func (h *hold) context(ctx context.Context, owner any) context.Context {
	return h.contexts.New(ctx, &h.mu, h, owner)
}

func TestAContextEndsWithItsHold(t *testing.T) {
	var h hold
	ctx := h.context(t.Context(), nil)
	other, cancel := context.WithCancel(t.Context())
	defer cancel()
	beside := h.context(other, nil)
	derived, stop := context.WithCancel(ctx)
	defer stop()
	require.NoError(t, ctx.Err())
	h.end()
	for _, c := range []context.Context{ctx, beside, derived, h.context(t.Context(), nil)} {
		require.ErrorIs(t, c.Err(), context.Canceled)
		require.Equal(t, errEnded, context.Cause(c))
	}
	require.NoError(t, other.Err())
}

// Timers are late. A caller that asks gets the truth, and the cause.
func TestAContextAnswersFromTheClock(t *testing.T) {
	for name, look := range map[string]func(ctx context.Context){
		"Err":  func(ctx context.Context) { assert.ErrorIs(t, ctx.Err(), context.Canceled) },
		"Done": func(ctx context.Context) { <-ctx.Done() },
	} {
		t.Run(name, func(t *testing.T) {
			var h hold
			ctx := h.context(t.Context(), nil)
			h.expire()
			look(ctx)
			assert.Equal(t, errEnded, context.Cause(ctx))
		})
	}
}

// Under several locks, the context of the innermost hold tells the truth about all of them.
func TestAContextAnswersFromTheClockForTheHoldsAroundItsOwn(t *testing.T) {
	for name, look := range map[string]func(ctx context.Context){
		"Err":   func(ctx context.Context) { assert.ErrorIs(t, ctx.Err(), context.Canceled) },
		"Done":  func(ctx context.Context) { <-ctx.Done() },
		"Cause": func(ctx context.Context) { assert.Equal(t, errEnded, context.Cause(ctx)) },
	} {
		t.Run(name, func(t *testing.T) {
			type key struct{}
			var outermost, middle, innermost hold
			ctx := outermost.context(t.Context(), nil)
			ctx = middle.context(context.WithValue(ctx, key{}, "a function's"), nil)
			first := innermost.context(ctx, nil)
			ctx = innermost.context(context.WithValue(ctx, key{}, "another's"), nil) // which shares its inside
			outermost.expire()
			look(ctx)
			assert.Equal(t, errEnded, context.Cause(ctx))
			assert.Error(t, first.Err())
			assert.NoError(t, innermost.Err())
		})
	}
}

func TestAContextEndsWithItsParent(t *testing.T) {
	why := errors.New("why")
	var h hold
	parent, cancel := context.WithCancelCause(t.Context())
	ctx := h.context(parent, nil)
	cancel(why)
	<-ctx.Done()
	require.Equal(t, why, context.Cause(ctx))
	h.end()
	require.Equal(t, why, context.Cause(ctx))
	require.ErrorIs(t, h.context(t.Context(), nil).Err(), context.Canceled)
}

// Contexts whose parents end together share the internals, and nothing else.
func TestEveryContextHasTheValuesOfItsOwnParent(t *testing.T) {
	type key struct{}
	var h hold
	soon, cancel := context.WithDeadline(t.Context(), time.Now().Add(time.Hour))
	defer cancel()
	one := h.context(context.WithValue(soon, key{}, 1), "owner")
	two := h.context(context.WithValue(soon, key{}, 2), "owner")
	assert.Equal(t, []any{1, 2}, []any{one.Value(key{}), two.Value(key{})})
	assert.Equal(t, "owner", Owner(two))
	deadline, _ := soon.Deadline()
	got, ok := two.Deadline()
	assert.True(t, ok)
	assert.Equal(t, deadline, got)
	assert.Equal(t, one.Done(), two.Done())
}

// A counting context counts how often it is asked for a value.
type counting struct {
	context.Context
	asked int
}

func (c *counting) Value(key any) any {
	c.asked++
	return c.Context.Value(key)
}

// A program that takes many locks passes the context of each to the next one.
func TestAValueIsLookedForOnceHoweverManyHoldsAreNested(t *testing.T) {
	type key struct{}
	const nested = 16
	root := &counting{Context: context.WithValue(t.Context(), key{}, "there")}
	ctx := context.Context(root)
	var holds [nested]hold
	for i := range holds {
		ctx = holds[i].context(ctx, "owner") //nolint:fatcontext // what it is about
	}
	root.asked = 0
	assert.Equal(t, "there", ctx.Value(key{}))
	assert.Equal(t, 1, root.asked)
	assert.Nil(t, ctx.Value("absent"))
	assert.Equal(t, 2, root.asked)
	holds[0].end()
	assert.Equal(t, errEnded, context.Cause(ctx), "the outermost")
}

func TestAContextWithoutAnOwnerHasThatOfItsParent(t *testing.T) {
	var h hold
	assert.Nil(t, Owner(h.context(t.Context(), nil)))
	ctx := WithOwner(t.Context(), "owner")
	assert.Equal(t, "owner", Owner(h.context(ctx, nil)))
	var inner hold
	assert.Equal(t, "another", Owner(inner.context(ctx, "another")))
}

// A long hold keeps only a few of the many contexts that are made of it for requests that end.
func TestContextsThatHaveEndedDoNotCollect(t *testing.T) {
	var h hold
	lives, cancel := context.WithCancel(t.Context())
	defer cancel()
	long := h.context(lives, nil)
	const many = 10_000
	for range many {
		request, done := context.WithCancel(context.Background())
		h.context(request, nil)
		done()
	}
	assert.Less(t, h.contexts.n, int32(20))
	h.end()
	assert.Equal(t, errEnded, context.Cause(long), "what lives is kept")
}

// A watcher is told once why the hold has ended, and keeps no context from being made, or dropped.
func TestAWatcherIsToldOfTheEnd(t *testing.T) {
	var h hold
	var told []error
	watch := func() { h.contexts.Watch(&h.mu, &h, func(why error) { told = append(told, why) }) }
	watch()
	ctx := h.context(context.Background(), nil)
	for range 100 {
		request, done := context.WithCancel(context.Background())
		h.context(request, nil)
		done()
	}
	require.NoError(t, ctx.Err())
	require.Empty(t, told)
	h.end()
	require.Equal(t, []error{errEnded}, told)
	require.Equal(t, errEnded, context.Cause(ctx))
	watch()
	require.Equal(t, []error{errEnded, errEnded}, told, "the second came too late")
}
