package wait_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-go/holdfast/internal/wait"
)

// A call waits in a bubble: each of its attempts takes a second and is recorded with its moment.
type call struct {
	q         *lines
	place     *wait.Place
	replies   []reply // to its attempts, in order
	at        []time.Duration
	causes    []wait.Cause
	overtakes func() bool
	moves     func(why error) error
}

type reply struct {
	done  bool
	retry time.Duration
	err   error
}

func (c *call) until(ctx context.Context, nobodyAhead bool) error {
	return wait.Until(ctx, ctx, nobodyAhead, c)
}

func (c *call) Attempt(context.Context, context.Context) (done bool, retry time.Duration, err error) {
	c.at = append(c.at, time.Since(c.q.began))
	time.Sleep(time.Second)
	r := c.replies[0]
	c.replies = c.replies[1:]
	return r.done, r.retry, r.err
}

func (c *call) TakePlace() *wait.Place {
	if c.place == nil {
		c.place = c.q.Join(x, true, false)
	}
	return c.place
}

func (c *call) Overtakes() bool { return c.overtakes != nil && c.overtakes() }

func (c *call) Woken(by wait.Cause) { c.causes = append(c.causes, by) }

func (c *call) Interrupted(_ context.Context, why error) error {
	if c.moves != nil {
		return c.moves(why)
	}
	return why
}

const s = time.Second

func TestUntilAttemptsWhenItIsTime(t *testing.T) {
	refused := errors.New("refused")
	busy := func(retry time.Duration) reply { return reply{retry: retry} }
	for name, c := range map[string]struct {
		nobodyAhead bool
		replies     []reply
		publish     time.Duration // when a message comes; 0: never
		at          []time.Duration
		causes      []wait.Cause
		err         error
	}{
		"at once if nobody is ahead": {true, []reply{{done: true}}, 0, []time.Duration{0}, nil, nil},
		"at the head of the line":    {false, []reply{{done: true}}, 0, []time.Duration{0}, []wait.Cause{wait.Timer}, nil},
		"when the time to retry has come": {
			true,
			[]reply{busy(5 * s), busy(7 * s), {done: true}},
			0,
			[]time.Duration{0, 6 * s, 14 * s},
			[]wait.Cause{wait.Timer, wait.Timer},
			nil,
		},
		"after a message": {
			true,
			[]reply{busy(10 * s), busy(10 * s), {done: true}},
			4 * s,
			[]time.Duration{0, 4 * s, 15 * s},
			[]wait.Cause{wait.Hint, wait.Timer},
			nil,
		},
		"never again after a refusal": {
			true,
			[]reply{busy(s), {err: refused}},
			0,
			[]time.Duration{0, 2 * s},
			[]wait.Cause{wait.Timer},
			refused,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newLines(t)
				call := &call{q: q, replies: c.replies}
				if c.publish > 0 {
					time.AfterFunc(c.publish, func() { q.publish("x") })
				}
				assert.Equal(t, c.err, call.until(t.Context(), c.nobodyAhead))
				assert.Equal(t, c.at, call.at)
				assert.Equal(t, c.causes, call.causes)
				assert.Empty(t, call.replies)
			})
		})
	}
}

// A message that comes during an attempt is not lost: the next attempt follows at once.
func TestUntilMissesNoMessageDuringAnAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newLines(t)
		call := &call{q: q, replies: []reply{{retry: 10 * s}, {retry: 10 * s}, {done: true}}}
		time.AfterFunc(11*s+s/2, func() { q.publish("x") }) // during the second attempt
		assert.NoError(t, call.until(t.Context(), true))
		assert.Equal(t, []time.Duration{0, 11 * s, 12 * s}, call.at)
	})
}

func TestUntilWaitsForItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newLines(t)
		ahead := q.Join(x, true, false)
		time.AfterFunc(20*s, func() { ahead.Leave(0) })
		call := &call{q: q, replies: []reply{{done: true}}}
		assert.NoError(t, call.until(t.Context(), false))
		assert.Equal(t, []time.Duration{20 * s}, call.at)
		assert.Equal(t, []wait.Cause{wait.Turn}, call.causes)
	})
}

// The one ahead may be waiting for this very owner.
func TestUntilOvertakesOnlyWaitersForItsOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newLines(t)
		ahead := q.Join(x, true, false)
		defer ahead.Leave(0)
		var holds atomic.Bool
		call := &call{q: q, overtakes: holds.Load, replies: []reply{{retry: 3 * s}, {done: true}}}
		call.place = q.Join(x, true, false)
		time.AfterFunc(5*s, call.place.Wake) // not for its turn, so it goes on waiting
		time.AfterFunc(9*s, func() {
			holds.Store(true)
			call.place.Wake()
		})
		assert.NoError(t, call.until(t.Context(), false))
		assert.Equal(t, []time.Duration{9 * s, 13 * s}, call.at)
		assert.Equal(t, []wait.Cause{wait.Hint, wait.Hint, wait.Timer}, call.causes)
	})
}

func TestUntilEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newLines(t)
		why := errors.New("the caller has gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(4*s, func() { cancel(why) })
		call := &call{q: q, replies: []reply{{retry: time.Hour}}}
		assert.Equal(t, why, call.until(ctx, true))
		assert.Equal(t, 4*s, time.Since(q.began))
	})
}

// A call whose session is closed may go on in the line of another session.
func TestUntilMovesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		closing, open := newLines(t), newLines(t)
		time.AfterFunc(4*s, closing.close)
		call := &call{q: closing, replies: []reply{{retry: 10 * s}, {done: true}}}
		call.moves = func(why error) error {
			assert.ErrorIs(t, why, wait.ErrClosed)
			call.place, call.q = nil, open
			return nil
		}
		assert.NoError(t, call.until(t.Context(), true))
		assert.Equal(t, []time.Duration{0, 14 * s}, call.at, "it retries no sooner")
	})
}

func TestAPlaceApartHearsOneChannelAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newLines(t)
		defer q.Join(x, true, false).Leave(0)
		p := q.Apart(x)
		assert.True(t, p.Head(), "though another one is in the line")
		p.Listen("mine")
		p.Listen("mine")
		assert.Equal(t, 1, q.begun["mine"])
		p.Listen("next")
		assert.Equal(t, []int{0, 1}, []int{q.standing("mine"), q.standing("next")})
		waiting := q.goWait(p, time.Hour)
		q.publish("next")
		assert.NoError(t, waiting.err())
		assert.Equal(t, wait.Hint, p.Cause())
		p.Leave(0)
		assert.Zero(t, q.standing("next"))
	})
}
