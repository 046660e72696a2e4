package p01

import (
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

func TestNestedCalls(t *testing.T) {
	srv := redistest.Start(t)
	s, err := holdfast.Open(rueidis.ClientOption{InitAddress: []string{srv.Addr()}}, nil)
	require.NoError(t, err)
	a := &Accounts{lock: rlock.New(s, "accounts", nil)}
	assert.NoError(t, a.Transfer(t.Context()))
	assert.NoError(t, a.TransferDo(t.Context()))
	assert.Empty(t, srv.Keyspace(t))
	require.NoError(t, s.Close())
}
