package demo

import "slices"

// A jobs is the coordinator's list of jobs, which are numbers from 1. It deals them to the workers
// that ask, and once more if the one that has it dies.
type jobs struct {
	todo   []int       // the next one first
	asking []int       // workers, the next one first
	hands  map[int]int // job that is dealt and not done → worker
}

func newJobs(n int) *jobs {
	j := &jobs{hands: map[int]int{}}
	for i := range n {
		j.todo = append(j.todo, i+1)
	}
	return j
}

// ask has a worker get one more job.
func (j *jobs) ask(worker int) { j.asking = append(j.asking, worker) }

// deal returns who gets which job now, 0 if nobody does.
func (j *jobs) deal() (worker, job int) {
	if len(j.asking) == 0 || len(j.todo) == 0 {
		return 0, 0
	}
	worker, job = j.asking[0], j.todo[0]
	j.asking, j.todo = j.asking[1:], j.todo[1:]
	j.hands[job] = worker
	return worker, job
}

func (j *jobs) done(job int) { delete(j.hands, job) }

// bury takes back what a dead worker had to do: these are the next ones.
func (j *jobs) bury(worker int) {
	j.asking = slices.DeleteFunc(j.asking, func(w int) bool { return w == worker })
	var left []int
	for job, w := range j.hands {
		if w == worker {
			delete(j.hands, job)
			left = append(left, job)
		}
	}
	slices.Sort(left)
	j.todo = append(left, j.todo...)
}
