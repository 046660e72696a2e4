package interop_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/tests/interop"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// A race is between Go sessions and Redisson clients that take one rlock over and over, and never pause.
type race struct {
	golang, java int           // sessions and clients
	work         time.Duration // for which each has the lock
}

// Both are long against the longest waits, which are those of a busy machine.
const (
	raceWarmUp = 500 * time.Millisecond // Java compiles
	raceLength = 2 * time.Second
)

// starved is less of a fair share than anybody should get. Where the machine has time for all, those of the language
// that has fewer get more than half of theirs; where it has not, Java needs longer to wake than the line waits for it.
const starved = 0.25

// starvedIf is starved on a machine that has woken this process too late, by that much of the length of a race: a turn
// of Java's takes several wake-ups. Beside two busy loops 0.24 was seen.
func starvedIf(late, length time.Duration) float64 {
	return starved * max(0, 1-4*late.Seconds()/length.Seconds())
}

// turns is how often those of each language had the lock, and by how much the machine has woken this process too late
// meanwhile.
type turns struct {
	ofGo, ofJava int
	late         time.Duration
}

// requireShares checks that those of the language of which there are fewer get at least so much of a fair share as a
// race says. The best of some counts: who starves does so in each, but Java also where a machine is slow to wake it.
func (r race) requireShares(t *testing.T, length time.Duration, run func() (had turns, least float64)) {
	t.Helper()
	enough := false
	for tries := 0; tries < 4 && !enough; tries++ {
		had, least := run()
		all := float64(had.ofGo + had.ofJava)
		share := all / float64(r.golang+r.java)
		goShare, javaShare := float64(had.ofGo)/float64(r.golang)/share, float64(had.ofJava)/float64(r.java)/share
		t.Logf("%.0f/s, of a fair share each has in Go %.2f, in Java %.2f; woken %v too late, so more than %.2f",
			all/length.Seconds(), goShare, javaShare, had.late, least)
		enough = (r.golang > r.java || goShare > least) && (r.java > r.golang || javaShare > least)
	}
	assert.True(t, enough, "each race of some had somebody starve")
}

// Where all want a lock all the time, nobody starves, of whichever language there are fewer.
func TestNobodyStarvesBesideALine(t *testing.T) {
	for _, r := range []race{
		{golang: 2, java: 1},
		{golang: 50, java: 1},
		{golang: 1, java: 2},
		{golang: 1, java: 10},
		{golang: 10, java: 10},
	} {
		t.Run(fmt.Sprintf("%d Go, %d Java, work %v", r.golang, r.java, r.work), func(t *testing.T) {
			r.requireShares(t, raceLength, func() (turns, float64) {
				had := r.run(t)
				return had, starvedIf(had.late, raceLength)
			})
		})
	}
}

func (r race) run(t *testing.T) (all turns) {
	t.Helper()
	server := redistest.Start(t)
	var sessions []*holdfast.Session
	for range r.golang {
		s, err := holdfast.Open(rueidis.ClientOption{InitAddress: []string{server.Addr()}}, nil)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, s.Close()) })
		sessions = append(sessions, s)
	}
	ofJava := r.startJava(t, server, raceLength)
	var racing sync.WaitGroup
	had := make([]int, len(sessions))
	for i, s := range sessions {
		racing.Go(func() { had[i] = takeTurns(t, s, r.work) })
	}
	lateUntil(time.Now().Add(raceWarmUp))
	all.late = lateUntil(time.Now().Add(raceLength))
	racing.Wait()
	for _, n := range had {
		all.ofGo += n
	}
	all.ofJava = ofJava()
	return all
}

// startJava starts the clients in Java, and returns a function that waits for their end and counts their turns.
func (r race) startJava(t *testing.T, server *redistest.Server, length time.Duration) (count func() int) {
	t.Helper()
	var calls []*interop.Call
	for range r.java {
		lock := connect(t, sharedJava(t), server).Thread(t, "racer").Object(interop.RLock, "x")
		calls = append(calls, lock.StartTurns(-time.Millisecond, raceWarmUp, length, r.work))
	}
	return func() (had int) {
		for _, c := range calls {
			n, _ := c.OK(t).Turns()
			had += n
		}
		return had
	}
}

// takeTurns is what StartTurns is in Java.
func takeTurns(t *testing.T, s *holdfast.Session, work time.Duration) (had int) {
	lock := rlock.New(s, "x", nil)
	begin := time.Now().Add(raceWarmUp)
	for end := begin.Add(raceLength); time.Now().Before(end); {
		hold, err := lock.Lock(t.Context())
		if !assert.NoError(t, err) {
			return had
		}
		if now := time.Now(); now.After(begin) && now.Before(end) {
			had++
		}
		if work > 0 {
			time.Sleep(work)
		}
		if !assert.NoError(t, hold.Release()) {
			return had
		}
	}
	return had
}
