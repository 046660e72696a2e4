package wait_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-go/holdfast/internal/wait"
)

const (
	turn     = 10 * time.Millisecond
	courtesy = 3 * time.Millisecond
)

// handOn keeps the name for a while in a place that was granted it, and gives it to the second place, as a session
// does. It returns how long the second one waited after the release, whose message comes first.
func (q *lines) handOn(first, second *wait.Place, keeps time.Duration, listeners int) time.Duration {
	q.t.Helper()
	first.Leave(time.Hour)
	waiting := q.goWait(second, time.Hour)
	time.Sleep(keeps)
	q.Releasing(x)
	q.publish("x")
	q.Released(x, listeners)
	released := time.Now()
	assert.NoError(q.t, waiting.err())
	return waiting.ended.Sub(released)
}

// inLine makes a line of subscribed places.
func (q *lines) inLine(n int) []*wait.Place {
	places := make([]*wait.Place, n)
	for i := range places {
		places[i] = q.Join(x, true, false)
	}
	q.wait(places[0], time.Second)
	return places
}

func TestALineStandsBackWhenItsTurnIsOver(t *testing.T) {
	for name, c := range map[string]struct {
		keeps     time.Duration
		listeners int
		want      time.Duration
	}{
		"a turn and more":                    {turn + 1, 2, courtesy},
		"a turn and more, nobody else":       {turn + 1, 1, 0},
		"a turn and more, nobody listens":    {time.Second, 0, 0},
		"its turn is not over":               {turn, 2, 0},
		"many others":                        {time.Second, 100, courtesy},
		"it has the name for no time at all": {0, 2, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newLines(t)
				places := q.inLine(2)
				assert.Equal(t, c.want, q.handOn(places[0], places[1], c.keeps, c.listeners))
				places[1].Leave(0)
			})
		})
	}
}

func TestATurnLastsFromPlaceToPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newLines(t)
		places := q.inLine(7)
		var waited []time.Duration
		for i := range 6 {
			waited = append(waited, q.handOn(places[i], places[i+1], 4*time.Millisecond, 2))
		}
		// The third one, of 4 ms, ends after the turn; then the other has its turn, and a new one of ours begins.
		assert.Equal(t, []time.Duration{0, 0, courtesy, 0, 0, courtesy}, waited)
		places[6].Leave(0)
	})
}

func TestATurnIsLongerIfNobodyHasHeardOfTheEndOfTheLastOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newLines(t)
		places := q.inLine(8)
		waited := []time.Duration{q.handOn(places[0], places[1], turn+1, 1)}
		q.wait(places[1], time.Second) // it had stood back before it knew that nobody else is there
		for i := range 6 {
			waited = append(waited, q.handOn(places[i+1], places[i+2], turn+1, 2))
		}
		// The fifth turn and a bit more end the long turn; that others have heard of it makes the next one short again.
		assert.Equal(t, []time.Duration{0, 0, 0, 0, 0, courtesy, courtesy}, waited)
		places[7].Leave(0)
	})
}

func TestALineStandsBackForAsManyTurnsAsThereAreOthers(t *testing.T) {
	const others = 3
	synctest.Test(t, func(t *testing.T) {
		q := newLines(t)
		places := q.inLine(2)
		// it waits until its own message, and one of each other, has passed
		q.handOn(places[0], places[1], time.Second, 1+others)
		var waited []time.Duration
		for range others {
			waiting := q.goWait(places[1], time.Hour)
			time.Sleep(turn)
			published := time.Now()
			q.publish("x") // the other's turn ends
			q.publish("x") // what follows at once does not count
			assert.NoError(t, waiting.err())
			waited = append(waited, waiting.ended.Sub(published))
			time.Sleep(turn / 2)
		}
		assert.Equal(t, []time.Duration{courtesy, courtesy, 0}, waited)
		places[1].Leave(0)
	})
}

func TestALineThatStandsBackNeedsNoMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newLines(t)
		places := q.inLine(2)
		places[0].Leave(time.Hour)
		waiting := q.goWait(places[1], time.Hour)
		time.Sleep(time.Second)
		q.Releasing(x)
		q.Released(x, 2)
		released := time.Now()
		assert.NoError(t, waiting.err())
		assert.Equal(t, courtesy, waiting.ended.Sub(released))
		places[1].Leave(0)
	})
}

func TestAReleaseWithoutALineIsNobodysBusiness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newLines(t)
		q.Releasing(x)
		q.Released(x, 5)
		p := q.Join(y, true, false)
		q.Releasing(x)
		q.Released(x, 5)
		assert.Equal(t, time.Second, q.wait(p, time.Second))
		p.Leave(0)
	})
}

// Who stood back before it knew that nobody else is there does so no longer.
func TestALineThatIsAloneStandsBackNoLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newLines(t)
		places := q.inLine(2)
		places[0].Leave(time.Hour)
		time.Sleep(turn + 1)
		q.Releasing(x)
		q.Released(x, 1)
		q.wait(places[1], time.Second)
		waiting := q.goWait(places[1], time.Hour)
		began := time.Now()
		q.publish("x")
		assert.NoError(t, waiting.err())
		assert.Equal(t, began, waiting.ended)
		places[1].Leave(0)
	})
}
