package interop_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/tests/interop"
)

type goGate struct {
	goUser
	latch *latch.Latch
}

func newGoGate(t *testing.T, f *fleet, name string) gate {
	t.Helper()
	return &goGate{goUser{t.Context()}, latch.New(f.session, name)}
}

func (g *goGate) trySet(t *testing.T, n int) bool {
	t.Helper()
	return must(g.latch.TrySetCount(g.ctx, n))(t)
}

func (g *goGate) countDown(t *testing.T) {
	t.Helper()
	require.NoError(t, g.latch.CountDown(g.ctx))
}

func (g *goGate) start() *attempt { return g.begin(g.latch.Wait) }

func (g *goGate) awaitFor(t *testing.T, wait time.Duration) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(g.ctx, wait)
	defer cancel()
	err := g.latch.Wait(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	require.NoError(t, err)
	return true
}

func (g *goGate) count(t *testing.T) int {
	t.Helper()
	return must(g.latch.Count(g.ctx))(t)
}

func (g *goGate) remove(t *testing.T) bool {
	t.Helper()
	return must(g.latch.Delete(g.ctx))(t)
}

type javaGate struct{ javaUser }

func newJavaGate(t *testing.T, f *fleet, name string) gate {
	t.Helper()
	return &javaGate{newJavaUserOf(t, f, interop.Latch, name)}
}

func (g *javaGate) trySet(t *testing.T, n int) bool {
	t.Helper()
	return g.object.Do(t, "trySetCount", n).Bool()
}

func (g *javaGate) countDown(t *testing.T) {
	t.Helper()
	g.object.Do(t, "countDown")
}

func (g *javaGate) start() *attempt { return g.begin("await") }

func (g *javaGate) awaitFor(t *testing.T, wait time.Duration) bool {
	t.Helper()
	return g.object.Do(t, "await", wait).Bool()
}

func (g *javaGate) count(t *testing.T) int {
	t.Helper()
	return int(g.object.Do(t, "getCount").Int())
}
