package session

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/script"
)

// A call whose time is over in the middle of an attempt tells why those before it failed.
func TestAnEndOfTimeDoesNotHideTheTrouble(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	trouble := &script.Failure{Temporary: true, Err: errors.New("READONLY")}
	for class, want := range map[script.Class]error{script.Refused: context.Canceled, script.Unknown: ErrUnknown} {
		r := Retries{failed: &failures{trouble: trouble}}
		last := &script.Failure{Class: class, Err: context.Canceled}
		r.Learn(last)
		err := r.Explain(ctx, last)
		require.ErrorIs(t, err, want)
		require.ErrorContains(t, err, "READONLY")
	}
}
