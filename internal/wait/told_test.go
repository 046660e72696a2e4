package wait_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// Calls that wait each for itself share one subscription, and each gets what is for it.
func TestCallsApartAreToldOnOneChannel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newLines(t)
		first, second := q.Apart(x), q.Apart(x)
		assert.True(t, first.Expect("x:me", "session:1"))
		assert.False(t, first.Expect("x:me", "session:1"))
		assert.True(t, second.Expect("x:me", "session:2"))
		assert.Equal(t, 1, q.begun["x:me"])

		q.tell("x:me", "session:2 0")
		assert.Equal(t, time.Second, q.wait(first, time.Second))
		assert.Empty(t, first.Mail())
		assert.Zero(t, q.wait(second, time.Second))
		assert.Equal(t, "session:2 0", second.Mail())
		assert.Empty(t, second.Mail(), "once")
		q.tell("x:me", "session:3 0") // of a call that has gone
		other := q.Apart(y)
		other.Expect("y:me", "session:4")
		q.tell("x:me", "session:4 0")
		assert.Equal(t, time.Second, q.wait(other, time.Second), "another name's message")
		other.Leave(0)

		for _, toAll := range []string{"", "0"} {
			q.tell("x:me", toAll) // something may have been missed
			assert.Zero(t, q.wait(first, time.Second))
			assert.Zero(t, q.wait(second, time.Second))
		}

		second.Leave(0)
		assert.Equal(t, 1, q.standing("x:me"))
		first.Leave(0)
		assert.Zero(t, q.standing("x:me"))
		q.tell("x:me", "late")
	})
}

// What is told of a former wire owner is not for the present one.
func TestACallApartExpectsWhatIsForItsWireOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newLines(t)
		p := q.Apart(x)
		p.Expect("x:me", "session:1")
		q.tell("x:me", "session:1 0")
		assert.True(t, p.Expect("x:me", "session:2"))
		assert.Empty(t, p.Mail())
		p.Calm()
		q.tell("x:me", "session:1 0")
		assert.Equal(t, time.Second, q.wait(p, time.Second))
		q.tell("x:me", "session:2 0")
		assert.Zero(t, q.wait(p, time.Second))
		assert.Equal(t, "session:2 0", p.Mail())
		q.tell("x:me", "")
		assert.Zero(t, q.wait(p, time.Second), "it is still one of all")
		p.Leave(0)
	})
}

// A subscription that stands already is no news to a call that looks first.
func TestACallApartThatLooksFirstIsCalm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newLines(t)
		q.confirm = true
		p := q.Apart(x)
		p.Expect("x:me", "session:1")
		p.Calm()
		assert.Equal(t, time.Second, q.wait(p, time.Second))
		p.Leave(0)

		p = q.Apart(x)
		p.Expect("x:me", "session:2")
		assert.Zero(t, q.wait(p, time.Second))
		p.Leave(0)
	})
}

// A place that hears what it waits for elsewhere begins to listen later. It looks then: there may have been something
// before.
func TestACallApartMayListenLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newLines(t)
		q.confirm = true
		p := q.Apart(x)
		p.ListenLater("x:session:1", time.Second)
		assert.Equal(t, time.Second/2, q.wait(p, time.Second/2))
		p.ListenLater("x:session:1", time.Second) // which does not put it off
		assert.Equal(t, time.Second/2, q.wait(p, 2*time.Second))
		synctest.Wait()
		assert.Equal(t, 1, q.begun["x:session:1"])
		assert.Equal(t, time.Second, q.wait(p, time.Second))
		q.publish("x:session:1")
		assert.Zero(t, q.wait(p, time.Second))
		p.ListenLater("x:session:2", time.Second)
		assert.Zero(t, q.standing("x:session:1"))
		p.Listen("x:session:2") // now
		assert.Equal(t, 1, q.standing("x:session:2"))
		assert.Zero(t, q.wait(p, time.Second), "there may have been something before")
		p.Leave(0)
		assert.Zero(t, q.standing("x:session:2"))

		p = q.Apart(x)
		p.ListenLater("x:session:3", time.Second)
		p.Leave(0)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		assert.Zero(t, q.begun["x:session:3"])

		p = q.Apart(x)
		p.ListenLater("x:session:4", time.Second)
		q.happens(func() { p.Leave(0) })
		time.Sleep(2 * time.Second)
		synctest.Wait()
		assert.Equal(t, 1, q.begun["x:session:4"])
		assert.Zero(t, q.standing("x:session:4"))
	})
}

// A place may listen to a channel of its own besides.
func TestACallApartMayListenToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newLines(t)
		p := q.Apart(x)
		p.Expect("x:me", "session:1")
		p.Listen("x:session:1")
		q.publish("x:session:1")
		assert.Zero(t, q.wait(p, time.Second))
		p.Leave(0)
		assert.Zero(t, q.standing("x:session:1"))
		assert.Zero(t, q.standing("x:me"))
	})
}
