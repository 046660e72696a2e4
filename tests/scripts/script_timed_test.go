package scripts

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// A timedCaller makes timed calls in one session, whose clock can be set.
type timedCaller struct {
	*script.Runner
	srv     *redistest.Server
	skipped time.Duration
	sent    []script.Window // with the calls so far
}

func newTimedCaller(t *testing.T) *timedCaller {
	t.Helper()
	srv := redistest.Start(t)
	client := kit.NewClient(t, srv.Addr())
	c, began := &timedCaller{srv: srv}, time.Now()
	c.Runner = script.NewRunner(client, func() time.Duration { return time.Since(began) + c.skipped }, 30*time.Second)
	t.Cleanup(func() {
		client.Close()
		c.Wait()
	})
	return c
}

// timed makes a timed call, which may be executed for 10 s, and forgets earlier ones.
func (c *timedCaller) timed(t *testing.T, name string,
	args func(call *script.Call, w script.Window),
) (reply script.Reply, err error) {
	s := script.Load(name)
	c.sent = nil
	err = c.Timed(t.Context(), &reply, "x", 10*time.Second, func(w script.Window) *script.Call {
		c.sent = append(c.sent, w)
		call := script.NewCall(s).Key("x")
		args(call, w)
		return call
	})
	return reply, err
}

func (c *timedCaller) acquire(t *testing.T) (script.Reply, error) {
	return c.timed(t, "rlock_acquire", func(call *script.Call, w script.Window) {
		call.Arg("a:1").Int(w.NotAfter)
	})
}

func (c *timedCaller) trim(t *testing.T) (script.Reply, error) {
	return c.timed(t, "lock_trim", func(call *script.Call, w script.Window) { call.Arg("a:1", "20000").Within(w) })
}

func TestATimedCallLearnsTheServersClockAndIsSentAgain(t *testing.T) {
	t.Parallel()
	c := newTimedCaller(t)
	before := time.Now().UnixMilli()
	reply, err := c.acquire(t)
	require.NoError(t, err)
	assert.EqualValues(t, script.Granted, reply.Code)
	assert.Zero(t, reply.Len)
	assert.LessOrEqual(t, reply.Sent, reply.At)
	require.Len(t, c.sent, 2)
	assert.Zero(t, c.sent[0].NotAfter, "nothing is known of the clock")
	assert.Equal(t, reply.Sent, c.sent[1].Sent)
	assert.InDelta(t, before, c.sent[1].NotBefore, 1000)
	assert.EqualValues(t, 9_899, c.sent[1].NotAfter-c.sent[1].NotBefore, "1 % less, for a clock that is slow")

	// By less than what makes the session forget what it knew: see fresh in the session's clocks.
	for name, skip := range map[string]time.Duration{
		"the server's clock is set back": 20 * time.Second,
		"and forward":                    -40 * time.Second,
	} {
		c.skipped += skip
		reply, err = c.trim(t)
		require.NoError(t, err, name)
		assert.EqualValues(t, script.Granted, reply.Code, name)
		assert.Len(t, c.sent, 2, name)
		_, err = c.trim(t)
		require.NoError(t, err, name)
		assert.Len(t, c.sent, 1, "%s: known by then", name)
	}
}

func (c *timedCaller) read(t *testing.T) (script.Reply, error) {
	return c.timed(t, "rwlock_acquire_read", func(call *script.Call, w script.Window) {
		call.Key(readKey("a:1", 1)).Arg("a:1", "1", "30000").Int(w.NotAfter).Arg("0")
	})
}

func TestABusyReplyTeachesTheServersClockIfItTellsIt(t *testing.T) {
	t.Parallel()
	for name, kind := range map[string]struct {
		take  func(c *timedCaller, t *testing.T) (script.Reply, error)
		tells bool
		taken []string
	}{
		"a lock":      {(*timedCaller).acquire, false, []string{"b:1", "1"}},
		"a read half": {(*timedCaller).read, true, []string{"mode", "write", "b:1:write", "1"}},
	} {
		c := newTimedCaller(t)
		take := func(code int64, sent int, what string) {
			t.Helper()
			reply, err := kind.take(c, t)
			require.NoError(t, err, "%s: %s", name, what)
			assert.Equal(t, code, reply.Code, "%s: %s", name, what)
			assert.Len(t, c.sent, sent, "%s: %s", name, what)
		}
		another := func() { c.srv.Do(t, append([]string{"HSET", "x"}, kind.taken...)...) }

		another()
		take(script.Busy, 1, "nothing is known of the clock")
		c.srv.Do(t, "DEL", "x")
		if kind.tells {
			take(script.Granted, 1, "known from the busy reply")
		} else {
			take(script.Granted, 2, "known from the refusal")
		}
		c.srv.Do(t, "FLUSHALL")
		another()
		c.skipped += 31 * time.Second // now anything newer replaces what is known: see fresh in the session's clocks
		take(script.Busy, 1, "known for long")
		c.srv.Do(t, "FLUSHALL")
		take(script.Granted, 1, "still known")
	}
}

func TestATimedCallThatIsAlwaysLateFails(t *testing.T) {
	t.Parallel()
	c := newTimedCaller(t)
	reply, err := c.timed(t, "rlock_acquire",
		func(call *script.Call, _ script.Window) { call.Arg("a:1", past) })
	assertFailed(t, script.Refused, true, err)
	assert.ErrorContains(t, err, "too late")
	assert.NotZero(t, reply.At)
	assert.Len(t, c.sent, 3)
	assert.Empty(t, c.srv.Keyspace(t))
}

func TestATimedCallThatDidAPartIsSentAgain(t *testing.T) {
	t.Parallel()
	c := newTimedCaller(t)
	c.srv.Do(t, "SET", "x", "0")
	for i := range 4001 {
		c.srv.Do(t, "ZADD", permitsKey, "1", strconv.Itoa(i))
	}
	reply, err := c.timed(t, "semaphore_acquire_expirable", func(call *script.Call, w script.Window) {
		call.Key(permitsKey).Arg("30000").Int(w.NotAfter).Arg(telling(false)...).Arg("", "0")
		for i := range 4001 {
			call.Arg("new " + strconv.Itoa(i))
		}
	})
	require.NoError(t, err)
	assert.EqualValues(t, script.Granted, reply.Code)
	assert.Len(t, c.sent, 4, "once late, then 2,000, 2,000 and the last one came back")
}

func TestATimedReplyWithoutItsHeadIsBroken(t *testing.T) {
	t.Parallel()
	c := newTimedCaller(t)
	_, err := c.timed(t, "semaphore_add",
		func(call *script.Call, _ script.Window) { call.Arg("1", "1", "PUBLISH", scChannel) })
	assertFailed(t, script.Broken, false, err)
}
