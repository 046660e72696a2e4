package locks

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/setlock"
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

// A script makes the channel of the key if it is not told. It cannot if the key has a brace.
func TestReleasesArePublishedWhereOthersListenWhateverTheName(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	messages, s := srv.Messages(t, "*"), kit.Open(t, srv.Addr(), nil)
	for _, name := range []string{"x", "{x}", "x{", "}x", "{x}:y", "%s"} {
		for channel, l := range map[string]holdfast.Locker{
			wire.LockChannel(name):           rlock.New(s, name, nil),
			wire.LockChannel("short" + name): rlock.New(s, "short"+name, &rlock.Options{FixedLease: time.Minute}),
			wire.SetChannel(name + "set"):    setlock.New(s, name+"set", nil),
			wire.SetChannel(name + "short"):  setlock.New(s, name+"short", &setlock.Options{FixedLease: time.Minute}),
		} {
			require.NoError(t, kit.Lock(t, t.Context(), l).Release())
			assert.Equal(t, []redistest.Message{{Channel: channel, Payload: "0"}}, messages.Drain(t), l.Name())
		}
	}
}
