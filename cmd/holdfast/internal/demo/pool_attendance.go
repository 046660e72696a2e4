package demo

import "fmt"

// An attendance is what the coordinator knows from the journal: who worked on what, and when, in
// lines.
type attendance struct {
	lines   int
	arrived int // goroutines
	begun   int // that had arrived when the first job was begun
	stays   []*stay
	inside  map[[2]int]*stay // by worker and goroutine
	doers   map[int][]int    // job → who has done it
	gone    map[int]bool     // workers
}

// A stay is one goroutine's work on one job, from one line to another.
type stay struct {
	worker, job int
	from, to    int  // to: 0 if it is not over
	lost        bool // the permit, and the job was not done
}

func newAttendance() *attendance {
	return &attendance{inside: map[[2]int]*stay{}, doers: map[int][]int{}, gone: map[int]bool{}}
}

// take takes in a line.
func (a *attendance) take(e event) {
	a.lines++
	who := [2]int{e.worker, e.Goroutine}
	switch e.What {
	case arrived:
		a.arrived++
	case holds:
		if len(a.stays) == 0 {
			a.begun = a.arrived
		}
		s := &stay{worker: e.worker, job: e.Value, from: a.lines}
		a.stays = append(a.stays, s)
		a.inside[who] = s
	case wrote:
		a.doers[e.Value] = append(a.doers[e.Value], e.worker)
		a.leave(who)
	case lost:
		a.inside[who].lost = true
		a.leave(who)
	case exited:
		a.gone[e.worker] = true
		for who := range a.inside {
			if who[0] == e.worker {
				a.leave(who)
			}
		}
	}
}

func (a *attendance) leave(who [2]int) {
	a.inside[who].to = a.lines
	delete(a.inside, who)
}

// working is how many work now.
func (a *attendance) working() int { return len(a.inside) }

// done is how many jobs are done.
func (a *attendance) done() int { return len(a.doers) }

// most is how many worked at once, at the most. Who lost its permit does not count: it has learned
// that, perhaps after a pause, and has left the job undone.
func (a *attendance) most() (most int) {
	for _, s := range a.stays {
		n := 0
		for _, other := range a.stays {
			if !other.lost && other.from <= s.from && (other.to == 0 || other.to > s.from) {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// limit says whether never more worked at once than there are permits.
func (a *attendance) limit() error {
	if most := a.most(); most > poolPermits {
		return fmt.Errorf("%d worked at once, with %d permits", most, poolPermits)
	}
	return nil
}

// audit says whether all began together, and have done every job once, with a permit each.
func (a *attendance) audit() error {
	if a.begun != poolAll {
		return fmt.Errorf("the first job was begun when %d of %d were ready", a.begun, poolAll)
	}
	for job := 1; job <= poolJobs; job++ {
		if n := len(a.doers[job]); n != 1 {
			return fmt.Errorf("job %d was done %d times", job, n)
		}
	}
	return a.limit()
}
