package kit

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
)

// Lock takes the lock or fails the test.
func Lock(t testing.TB, ctx context.Context, l holdfast.Locker) *holdfast.Hold {
	t.Helper()
	h, err := l.Lock(ctx)
	require.NoError(t, err)
	require.NotNil(t, h)
	return h
}

// A Result is what a call in another goroutine returned.
type Result struct {
	Hold *holdfast.Hold
	Err  error
}

// GoLock calls take in a goroutine.
func GoLock(ctx context.Context, take func(context.Context) (*holdfast.Hold, error)) <-chan Result {
	c := make(chan Result, 1)
	go func() {
		h, err := take(ctx)
		c <- Result{h, err}
	}()
	return c
}

// Granted receives a hold from c or fails the test.
func Granted(t testing.TB, d time.Duration, c <-chan Result, what string) *holdfast.Hold {
	t.Helper()
	r := Within(t, d, c, what)
	require.NoError(t, r.Err, what)
	return r.Hold
}
