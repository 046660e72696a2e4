package interop_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/tests/board"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
	"github.com/holdfast-go/holdfast/tests/worker"
)

// halfShare is what everybody gets at least of a fair share, where the machine has time for all. Where it has not, Java
// needs longer to wake than the line waits for it: 0.47 and 0.49 were seen beside eight other tests.
const halfShare = 0.5

// A processRace is a race between processes in Go, rather than sessions of one, and clients of Redisson.
type processRace race

// Where processes and Redisson want a lock all the time, each gets at least half of its fair share, of whichever there
// are fewer.
func TestProcessesAndJavaShareALock(t *testing.T) {
	for _, r := range []processRace{
		{golang: 2, java: 1, work: time.Millisecond},
		{golang: kit.Stressed(15, 50), java: 1, work: time.Millisecond},
	} {
		t.Run(fmt.Sprintf("%d Go, %d Java", r.golang, r.java), func(t *testing.T) {
			race(r).requireShares(t, r.length(), func() (turns, float64) {
				had := r.run(t)
				least := starvedIf(had.late, r.length())
				if had.late == 0 {
					least = halfShare
				}
				return had, least
			})
		})
	}
}

// length gives everybody enough turns: of 51 on a machine that stood still for a second, one had none of 306 turns.
func (r processRace) length() time.Duration {
	return raceLength * time.Duration(max(1, (r.golang+r.java)/15))
}

func (r processRace) run(t *testing.T) (had turns) {
	t.Helper()
	server := redistest.Start(t)
	path := filepath.Join(t.TempDir(), "board")
	b, err := board.Open(path)
	require.NoError(t, err)
	ready := make(chan string, r.golang)
	var racers []*worker.Worker
	for i := range r.golang {
		racers = append(racers, worker.Start(t, func(line string) { ready <- line }, "racer",
			server.Addr(), path, strconv.Itoa(i), r.work.String()))
	}
	kit.Await(t, "all processes", func() bool { return len(ready) == r.golang })
	ofJava := race(r).startJava(t, server, r.length())
	b.Open.Store(1)
	taken := func() (n int) {
		for i := range r.golang {
			n += int(b.Places[i].Taken.Load())
		}
		return n
	}
	lateUntil(time.Now().Add(raceWarmUp))
	before := taken()
	had.late = lateUntil(time.Now().Add(r.length()))
	had.ofGo = taken() - before
	for _, w := range racers {
		w.End()
	}
	had.ofJava = ofJava()
	for _, w := range racers {
		<-w.Ended()
	}
	return had
}

// lateUntil sleeps until then, and returns by how much it was woken too late in all, since the machine was busy.
func lateUntil(then time.Time) (late time.Duration) {
	const tempo, notable = 5 * time.Millisecond, 3 * time.Millisecond // Java needs several wake-ups for a turn
	for began := time.Now(); began.Before(then); began = time.Now() {
		time.Sleep(tempo)
		if by := time.Since(began) - tempo; by > notable {
			late += by
		}
	}
	return late
}

// beRacer takes turns as StartTurns does in Java, from when the board is open until it is told to end.
func beRacer(args []string) {
	s := kit.OpenWorker(args[0], 30*time.Second)
	b, err := board.Open(args[1])
	kit.Must(err)
	number, err := strconv.Atoi(args[2])
	kit.Must(err)
	work, err := time.ParseDuration(args[3])
	kit.Must(err)
	hold, err := rlock.New(s, "warm "+args[2], nil).Lock(context.Background()) // it learns the server's clock
	kit.Must(err)
	kit.Must(hold.Release())
	lock := rlock.New(s, "x", nil)
	worker.Say("ready")
	for b.Open.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	for {
		select {
		case <-worker.Stopped():
			kit.Must(s.Close())
			return
		default:
		}
		hold, err := lock.Lock(context.Background())
		kit.Must(err)
		b.Places[number].Taken.Add(1)
		if work > 0 {
			time.Sleep(work)
		}
		kit.Must(hold.Release())
	}
}
