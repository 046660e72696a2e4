package refusal

import (
	"context"
	"errors"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
)

// What the client says itself is no answer of the server.
func TestNoAnswer(t *testing.T) {
	for _, err := range []error{
		nil, rueidis.ErrClosing, rueidis.ErrNoSlot, context.Canceled, errors.New("NOPERM no permissions"),
	} {
		assert.False(t, Is(err), "%v", err)
		assert.False(t, Denied(err), "%v", err)
	}
}
