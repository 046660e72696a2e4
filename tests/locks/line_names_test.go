package locks

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// The names x and {x} share Redisson's channel. They are two locks nevertheless: each has a line of its own.
func TestNamesThatDifferByBracesHaveLinesOfTheirOwn(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	of := func(name string) *rlock.Mutex { return rlock.New(kit.Open(t, srv.Addr(), nil), name, nil) }
	holder, other := kit.Lock(t, t.Context(), of("x")), kit.Lock(t, t.Context(), of("{x}"))
	waits := kit.GoLock(t.Context(), of("{x}").Lock)
	kit.Await(t, "the waiter stands", func() bool { return len(srv.Strs(t, "KEYS", "holdfast_line:*")) > 0 })
	require.NoError(t, holder.Release())
	select {
	case r := <-waits:
		require.Fail(t, "granted while another has it", "%v %v", r.Err, other.Err())
	case <-time.After(500 * time.Millisecond):
	}
	require.NoError(t, other.Release())
	require.NoError(t, kit.Granted(t, kit.Told, waits, "the waiter").Release())
}
