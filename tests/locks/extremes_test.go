package locks

import (
	"context"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/multilock"
	"github.com/holdfast-go/holdfast/once"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// Tokens above 2^53, such as a time in nanoseconds, lose no digits, although numbers in scripts do.
func TestTokensAreExact(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	p := proxy.Start(t, srv.Addr())
	s := kit.Open(t, p.Addr(), nil)
	l := rlock.New(s, "x", &rlock.Options{Fenced: true})
	require.NoError(t, kit.Lock(t, t.Context(), l).Release()) // now the server's clock is known
	newest := time.Now().UnixNano() | 1
	srv.Do(t, "SET", wire.TokenKey("x"), strconv.FormatInt(newest, 10))
	for i := range int64(5) {
		hold := kit.Lock(t, t.Context(), l)
		require.Equal(t, newest+i+1, hold.Token())
		require.NoError(t, hold.Release())
	}
	p.On(kit.ScriptNamed("rlock_acquire"), proxy.DropReply, proxy.First)
	hold := kit.Lock(t, t.Context(), l) // a copy finds the token of the first
	require.Equal(t, newest+6, hold.Token())
	require.NoError(t, hold.Release())

	hold = kit.Lock(t, t.Context(), rlock.New(s, "x", nil))
	nested := kit.Lock(t, hold.Context(t.Context()), l) // the first call of this owner that wants one
	require.Equal(t, newest+7, nested.Token())
	require.NoError(t, nested.Release())
	require.NoError(t, hold.Release())
}

func TestExtremeLeases(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := kit.Open(t, srv.Addr(), nil)
	hold := kit.Lock(t, t.Context(), rlock.New(s, "x", &rlock.Options{FixedLease: math.MaxInt64}))
	assert.NoError(t, hold.Err())
	assert.True(t, hold.Deadline().After(time.Now().Add(200*365*24*time.Hour)))
	assert.NoError(t, hold.Context(t.Context()).Err())
	require.NoError(t, hold.Extend(t.Context(), math.MaxInt64))
	srv.Do(t, "PEXPIRE", "x", "9223382036900") // in ms: by hours longer than a time.Duration can hold
	left, err := rlock.New(s, "x", nil).RemainingLease(t.Context())
	require.NoError(t, err)
	assert.Equal(t, time.Duration(math.MaxInt64), left)
	holders, err := rlock.New(s, "x", nil).Holders(t.Context())
	require.NoError(t, err)
	assert.Equal(t, time.Duration(math.MaxInt64), holders[0].Lease)
	_, err = rlock.New(s, "x", nil).TryLock(t.Context())
	require.ErrorIs(t, err, holdfast.ErrBusy)
	require.NoError(t, hold.Release())

	hold = kit.Lock(t, t.Context(), rlock.New(s, "x", &rlock.Options{FixedLease: 10*time.Millisecond + 1}))
	assert.LessOrEqual(t, srv.TTLs(t)["x"], 11*time.Millisecond)
	_ = hold.Release()
}

// A session whose lease has no end publishes which process it is.
func TestASessionWithTheLongestLeaseIsKnown(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	client := rueidis.ClientOption{InitAddress: []string{srv.Addr()}}
	s := kit.OpenKnown(t, client, &holdfast.Options{Lease: math.MaxInt64})
	hold := kit.Lock(t, t.Context(), rlock.New(s, "x", nil))
	defer func() { require.NoError(t, hold.Release()) }()
	kit.Await(t, "the session's key", func() bool { return srv.TTLs(t)[wire.SessionKey(s.ID())] > 0 })
}

// An error quotes only a part of a name that is long, or too long, and so does the log of one that is refused.
func TestErrorsOfLongNamesAreShort(t *testing.T) {
	t.Parallel()
	log := &kit.Journal{}
	s := kit.Open(t, redistest.Start(t).Addr(), &holdfast.Options{Lease: kit.Lease, Logger: log.JsonLogger()})
	long := rlock.New(s, strings.Repeat("long", 10_000), nil)
	tooLong := rlock.New(s, strings.Repeat("long", 20_000), nil)
	require.Len(t, log.Entries(t, "holdfast: name refused"), 1)
	require.Less(t, len(log.String()), 1000)
	for words, take := range map[string]func(context.Context) (*holdfast.Hold, error){
		"name is 80000 bytes long": tooLong.TryLock,
		"is given twice":           multilock.New(long, long).TryLock,
		": name is 80000 bytes":    multilock.New(tooLong).TryLock,
		"the interval is 0s": func(ctx context.Context) (*holdfast.Hold, error) {
			_, err := once.New(s, long.Name(), 0, nil).Run(ctx, nil)
			return nil, err
		},
	} {
		_, err := take(t.Context())
		require.ErrorContains(t, err, words)
		require.Less(t, len(err.Error()), 1500)
	}
	require.Less(t, len((&holdfast.LostError{Name: strings.Repeat("long", 10_000)}).Error()), 1000)
}
