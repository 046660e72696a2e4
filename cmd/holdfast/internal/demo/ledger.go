package demo

import (
	"fmt"
	"slices"
	"time"
)

// A ledger is what the coordinator knows of the counter, from what the workers tell. Every
// worker adds one to what it has read, so under a lock that holds, the numbers written are
// 1, 2, 3 and so on, each once. A number that is written twice is a lost update: the second
// writer has not seen the first. What a worker has written it tells before it releases the
// lock, so of what a killed worker wrote in its earlier holds nothing is missing here.
type ledger struct {
	workers []account // by number, from 1; the 0th is all of them
	writers map[int]int
	highest int // number written
	doubled int // numbers written again
}

// An account is what one worker did.
type account struct {
	acquired, wrote, lost int
	reads                 int // to the end
	waits                 []time.Duration
}

func newLedger(workers int) *ledger {
	return &ledger{workers: make([]account, workers+1), writers: make(map[int]int)}
}

// take books an event.
func (l *ledger) take(e event) {
	for _, a := range []*account{&l.workers[0], &l.workers[e.worker]} {
		switch e.What {
		case holds:
			a.acquired++
			a.waits = append(a.waits, e.Waited)
		case wrote:
			a.wrote++
		case saw:
			a.reads++
		case lost:
			a.lost++
		}
	}
	if e.What == wrote {
		if _, again := l.writers[e.Value]; again {
			l.doubled++
		}
		l.writers[e.Value] = e.worker
		l.highest = max(l.highest, e.Value)
	}
}

func (l *ledger) all() *account { return &l.workers[0] }

// lostUpdates is how many of the writes are not in the counter.
func (l *ledger) lostUpdates(counter int) int { return max(l.all().wrote-counter, l.doubled) }

// audit compares what was told with what the counter says in the end.
func (l *ledger) audit(counter int) error {
	if n := l.lostUpdates(counter); n > 0 {
		return fmt.Errorf("%d lost updates: %d writes, but the counter is %d", n, l.all().wrote, counter)
	}
	for n := 1; n <= counter; n++ {
		if l.writers[n] == 0 {
			return fmt.Errorf("nobody has told of writing %d, and the counter is %d", n, counter)
		}
	}
	return nil
}

// A spread is how long something took, over many times.
type spread struct{ median, p95, p99, longest time.Duration }

func spreadOf(times []time.Duration) spread {
	if len(times) == 0 {
		return spread{}
	}
	sorted := slices.Sorted(slices.Values(times))
	at := func(percent int) time.Duration { return sorted[(len(sorted)-1)*percent/100] }
	return spread{median: at(50), p95: at(95), p99: at(99), longest: at(100)}
}

// human is a duration as people say it.
func human(d time.Duration) string {
	switch {
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1f ms", d.Seconds()*1000)
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	default:
		return fmt.Sprintf("%.2f s", d.Seconds())
	}
}
