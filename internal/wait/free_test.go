package wait_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// Who is told that the name is free lets others take it first: it looks later, or as soon as these have had it.
func TestWhoIsToldThatANameIsFreeLooksLater(t *testing.T) {
	for name, c := range map[string]struct {
		before   bool // it listens to the name's channel already
		confirms bool // a subscription is confirmed at once
		happens  func(q *lines)
		waits    time.Duration
	}{
		"nobody takes it":                  {happens: func(*lines) {}, waits: courtesy},
		"nobody takes it, it has listened": {before: true, happens: func(q *lines) { q.publish("x") }, waits: courtesy},
		"nobody takes it, it still does":   {confirms: true, happens: func(q *lines) { q.publish("x") }, waits: courtesy},
		"the subscription stands later":    {happens: func(q *lines) { q.tell("x", "") }, waits: courtesy},
		"taken and released":               {happens: func(q *lines) { q.publish("x") }, waits: time.Millisecond},
		"taken and released, it has listened": {
			before: true, happens: func(q *lines) { q.publish("x"); q.publish("x") }, waits: time.Millisecond,
		},
		"taken and released, it still does": {
			confirms: true, happens: func(q *lines) { q.publish("x"); q.publish("x") }, waits: time.Millisecond,
		},
		"handed to it after all": {happens: func(q *lines) { q.tell("own", "wire 0") }, waits: time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newLines(t)
				p := q.JoinStanding(x, stands{channel: "own", mark: "mark", kind: "kind"})
				if c.before {
					p.Hear(true, true)
				}
				q.confirm = c.confirms
				waiting := q.goWait(p, time.Hour)
				if c.confirms { // which is a wake-up
					assert.NoError(t, waiting.err())
					waiting = q.goWait(p, time.Hour)
				}
				began := time.Now()
				q.tell("own", "free")
				assert.Equal(t, 1, q.standing("x"), "it listens, too")
				assert.Equal(t, 1, q.standing("mark"), "and says so")
				time.Sleep(time.Millisecond)
				c.happens(q)
				assert.NoError(t, waiting.err())
				assert.Equal(t, c.waits, waiting.ended.Sub(began))
				p.Leave(0)
				assert.Zero(t, q.standing("x")+q.standing("mark")+q.standing("own"))
			})
		})
	}
}

// After that time every message is one.
func TestALineThatWasToldOfAFreeNameHearsOthersLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newLines(t)
		p := q.JoinStanding(x, stands{channel: "own", mark: "mark", kind: "kind"})
		waiting := q.goWait(p, time.Hour)
		q.tell("own", "free")
		assert.NoError(t, waiting.err())
		for _, message := range []string{"0", ""} {
			waiting = q.goWait(p, time.Hour)
			time.Sleep(courtesy)
			q.tell("x", message)
			began := time.Now()
			assert.NoError(t, waiting.err())
			assert.Zero(t, waiting.ended.Sub(began))
		}
		p.Hear(false, true)
		assert.Zero(t, q.standing("x")+q.standing("mark"))
		p.Leave(0)
		q.tell("own", "free") // to nobody
	})
}
