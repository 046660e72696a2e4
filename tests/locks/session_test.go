package locks

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/semaphore"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

func TestOptionsAreChecked(t *testing.T) {
	t.Parallel()
	addr := redistest.Start(t).Addr()
	good := rueidis.ClientOption{InitAddress: []string{addr}}
	always := func(rueidis.Completed) bool { return true }
	for says, bad := range map[string]struct {
		opt  func(*rueidis.ClientOption)
		opts holdfast.Options
	}{
		"Options.Lease":                       {opts: holdfast.Options{Lease: time.Second - 1}},
		"Options.Lease is -1s":                {opts: holdfast.Options{Lease: -time.Second}},
		"Options.MaxHold is 10s, must be":     {opts: holdfast.Options{MaxHold: 10 * time.Second}},
		"Options.MaxHold is -1s":              {opts: holdfast.Options{MaxHold: -time.Second}},
		"Options.BreakDeadlocks needs":        {opts: holdfast.Options{BreakDeadlocks: true, Anonymous: true}},
		"Options.LongHold is 9.999999ms":      {opts: holdfast.Options{LongHold: 10*time.Millisecond - 1}},
		"Options.LongHold is -1s":             {opts: holdfast.Options{LongHold: -time.Second}},
		"Options.PubSub":                      {opts: holdfast.Options{PubSub: 7}},
		"Options.PubSub is PubSubSharded":     {opts: holdfast.Options{PubSub: holdfast.PubSubSharded}},
		"ClientOption.ConnLifetime":           {opt: func(o *rueidis.ClientOption) { o.ConnLifetime = time.Hour }},
		"ClientOption.InitAddress has a URL":  {opt: func(o *rueidis.ClientOption) { o.InitAddress[0] = "redis://" + addr }},
		"ClientOption.ReplicaOnly":            {opt: func(o *rueidis.ClientOption) { o.ReplicaOnly = true }},
		"Options.Label":                       {opts: holdfast.Options{Label: strings.Repeat("x", 257)}},
		"ClientOption.SendToReplicas":         {opt: func(o *rueidis.ClientOption) { o.SendToReplicas = always }},
		"ClientOption.RingScaleEachConn is 9": {opt: func(o *rueidis.ClientOption) { o.RingScaleEachConn = 9 }},
		"ClientOption.RingScaleEachConn is 4": {opt: func(o *rueidis.ClientOption) { o.RingScaleEachConn = 4 }},
		"ClientOption.DisableAutoPipelining":  {opt: func(o *rueidis.ClientOption) { o.DisableAutoPipelining = true }},
	} {
		opt := good
		opt.InitAddress = slices.Clone(good.InitAddress)
		if bad.opt != nil {
			bad.opt(&opt)
		}
		s, err := holdfast.Open(opt, &bad.opts)
		assert.ErrorContains(t, err, says)
		assert.Nil(t, s)
	}
	_, err := holdfast.NewSession(nil, nil)
	assert.ErrorContains(t, err, "client is nil")

	s, err := holdfast.Open(good, nil)
	require.NoError(t, err)
	redistest.Limit(t, func() { _ = s.Close() })
	hold := kit.Lock(t, t.Context(), rlock.New(s, "x", nil))
	assert.InDelta(t, 30*time.Second, time.Until(hold.Deadline()), float64(time.Second))
	require.NoError(t, s.Close())
}

func TestASessionOnTheCallersClient(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{srv.Addr()}, DisableCache: true})
	require.NoError(t, err)
	defer client.Close()
	s, err := holdfast.NewSession(client, nil)
	require.NoError(t, err)
	redistest.Limit(t, func() { _ = s.Close() })
	kit.Lock(t, t.Context(), rlock.New(s, "x", nil))
	require.NoError(t, s.Close())
	assert.Empty(t, srv.Keyspace(t))
	assert.NoError(t, client.Do(t.Context(), client.B().Ping().Build()).Error(), "the client stays open")
}

// A countedClient counts the calls of it, and stays closed.
type countedClient struct {
	rueidis.Client
	calls  atomic.Int64
	closed atomic.Bool
}

// count counts a call under ctx. One that finds its ctx ended would bring a closed client of rueidis back to life.
func (c *countedClient) count(ctx context.Context) context.Context {
	c.calls.Add(1)
	if c.closed.Load() {
		return context.WithoutCancel(ctx)
	}
	return ctx
}

func (c *countedClient) Close() {
	c.closed.Store(true)
	c.Client.Close()
}

func (c *countedClient) Do(ctx context.Context, command rueidis.Completed) rueidis.RedisResult {
	return c.Client.Do(c.count(ctx), command)
}

func (c *countedClient) DoMulti(ctx context.Context, commands ...rueidis.Completed) []rueidis.RedisResult {
	return c.Client.DoMulti(c.count(ctx), commands...)
}

func (c *countedClient) Dedicate() (rueidis.DedicatedClient, func()) {
	c.calls.Add(1)
	return c.Client.Dedicate()
}

// Closing a client before its session is a mistake, but costs next to nothing until the session is closed as well.
func TestASessionWhoseClientIsClosedIsIdle(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	client := &countedClient{Client: kit.NewClient(t, srv.Addr())}
	s, err := holdfast.NewSession(client, &holdfast.Options{Lease: kit.Lease})
	require.NoError(t, err)
	defer func() { _ = s.Close() }()
	others := kit.Open(t, srv.Addr(), nil)
	var waiting sync.WaitGroup
	wait := func(call func() error) {
		waiting.Go(func() { assert.Error(t, call()) })
	}
	var releases []*holdfast.Hold
	for _, k := range kit.OnOneServer() {
		outer := kit.Lock(t, t.Context(), k.Make(s, "held "+k.Name, 0))
		kit.Lock(t, t.Context(), k.Make(s, "kept "+k.Name, 0))
		if k.Reentrant {
			releases = append(releases, kit.Lock(t, outer.Context(t.Context()), k.Make(s, "held "+k.Name, 0)))
		}
		releases = append(releases, outer)
		kit.Lock(t, t.Context(), k.Rival(others, "wanted "+k.Name, 0))
		wait(func() error {
			_, err := k.Make(s, "wanted "+k.Name, 0).Lock(t.Context())
			return err
		})
	}
	gate, pool := latch.New(s, "gate"), semaphore.New(s, "pool")
	_, err = gate.TrySetCount(t.Context(), 1)
	require.NoError(t, err)
	_, err = pool.TrySetPermits(t.Context(), 1)
	require.NoError(t, err)
	require.NoError(t, pool.Acquire(t.Context(), 1))
	wait(func() error { return gate.Wait(t.Context()) })
	wait(func() error { return pool.Acquire(t.Context(), 1) })
	kit.Await(t, "the waiters", func() bool { return len(srv.Strs(t, "PUBSUB", "CHANNELS")) >= 8 })

	client.Close()
	for _, h := range releases {
		assert.ErrorIs(t, h.Release(), holdfast.ErrUnknown)
	}
	assert.ErrorIs(t, pool.Release(t.Context(), 1), holdfast.ErrUnknown)
	before := client.calls.Load()
	const quiet = 2 * time.Second
	kit.SleepUntil(time.Now().Add(quiet))
	perSecond := float64(client.calls.Load()-before) / quiet.Seconds()
	assert.Less(t, perSecond, 20*float64(len(kit.Kinds)), "it should do each of its jobs about twice a second")
	assert.Error(t, s.Close())
	waiting.Wait()
}

func TestMapName(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := kit.Open(t, srv.Addr(), &holdfast.Options{MapName: func(name string) string { return "prod:" + name }})
	l := rlock.New(s, "x", &rlock.Options{Fenced: true})
	hold := kit.Lock(t, t.Context(), l)
	assert.Equal(t, "x", l.Name())
	assert.Equal(t, "x", hold.Name())
	keys := srv.Keyspace(t)
	assert.Contains(t, keys, "prod:x")
	assert.Contains(t, keys, "redisson_lock_token:{prod:x}")
	require.NoError(t, hold.Release())
	_, err := rlock.New(s, "", nil).Lock(t.Context())
	assert.ErrorContains(t, err, "name is empty", "whatever the mapper would make of it")
}
