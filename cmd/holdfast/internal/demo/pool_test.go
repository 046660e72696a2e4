package demo

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// attended is an attendance from a journal of lines such as "+1" and "-1", which is worker 1, of
// one goroutine, beginning the next job and having done it; "?1" has lost its permit and "x1" is
// dead. All arrive before.
func attended(lines string) *attendance {
	a, job, on := newAttendance(), 0, map[int]int{}
	for range poolAll {
		a.take(event{What: arrived, worker: 1})
	}
	for one := range strings.FieldsSeq(lines) {
		worker := int(one[1] - '0')
		does := map[byte]what{'+': holds, '-': wrote, '?': lost, 'x': exited}[one[0]]
		if does == holds {
			job++
			on[worker] = job
		}
		a.take(event{What: does, worker: worker, Value: on[worker]})
	}
	return a
}

func TestMost(t *testing.T) {
	for lines, want := range map[string]int{
		"":                        0,
		"+1 -1 +2 -2":             1,
		"+1 +2 +3 -1 +4 -2 -3 -4": 3,
		"+1 +2 +3 +4":             4,
		"+1 +2 +3 x1 +4 -4":       3,
		"+1 +2 +3 +4 x1":          4,
		"+1 +2 +3 +4 ?1 -2":       3, // the lost permit was another's, and worker 1 has left the job undone
	} {
		a := attended(lines)
		require.Equal(t, want, a.most(), lines)
		if want > poolPermits {
			require.EqualError(t, a.limit(), "4 worked at once, with 3 permits")
		} else {
			require.NoError(t, a.limit())
		}
	}
}

func TestAttendance(t *testing.T) {
	all := strings.Repeat("+1 -1 ", poolJobs)
	require.NoError(t, attended(all).audit())
	require.EqualError(t, attended(strings.Repeat("+1 -1 ", poolJobs-1)).audit(), "job 120 was done 0 times")
	require.EqualError(t, attended(all+"+1 +2 +3 +4").audit(), "4 worked at once, with 3 permits")

	twice := attended(all)
	twice.take(event{What: holds, worker: 2, Value: 7})
	twice.take(event{What: wrote, worker: 2, Value: 7})
	require.EqualError(t, twice.audit(), "job 7 was done 2 times")

	early := newAttendance()
	early.take(event{What: arrived, worker: 1})
	early.take(event{What: holds, worker: 1, Value: 1})
	early.take(event{What: arrived, worker: 2})
	require.EqualError(t, early.audit(), "the first job was begun when 1 of 8 were ready")
}

func TestJournal(t *testing.T) {
	j := journal(filepath.Join(t.TempDir(), "journal"))
	events, at, err := j.read(0)
	require.NoError(t, err)
	require.Empty(t, events)

	require.NoError(t, j.write(3, event{What: holds, Goroutine: 1, Value: 7}))
	events, at, err = j.read(at)
	require.NoError(t, err)
	require.Equal(t, []event{{What: holds, worker: 3, Goroutine: 1, Value: 7}}, events)

	require.NoError(t, j.write(3, event{What: wrote, Value: 7}))
	whole, err := os.ReadFile(string(j))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(string(j), append(whole, `{"worker":4`...), 0o600))
	events, at, err = j.read(at)
	require.NoError(t, err)
	require.Equal(t, []event{{What: wrote, worker: 3, Value: 7}}, events, "without the line that is not whole")
	require.EqualValues(t, len(whole), at)

	require.NoError(t, os.WriteFile(string(j), append(whole, "no line\n"...), 0o600))
	_, _, err = j.read(at)
	require.ErrorContains(t, err, "journal: ")
}

func TestJobs(t *testing.T) {
	j := newJobs(4)
	dealt := func(worker, job int) {
		t.Helper()
		w, n := j.deal()
		require.Equal(t, [2]int{worker, job}, [2]int{w, n})
	}
	dealt(0, 0)
	for _, worker := range []int{1, 2, 1, 2} {
		j.ask(worker)
	}
	dealt(1, 1)
	dealt(2, 2)
	dealt(1, 3)
	j.done(1)
	j.ask(1)
	j.bury(1)
	dealt(2, 3)
	dealt(0, 0)
	j.ask(3)
	j.bury(2)
	dealt(3, 2)
	j.ask(3)
	dealt(3, 3)
	j.ask(3)
	dealt(3, 4)
	j.ask(3)
	dealt(0, 0)
}

// A dead worker's permit is back when as many others work as there are permits.
func TestPermitComesBack(t *testing.T) {
	p := newPoolStory(&stage{file: filepath.Join(t.TempDir(), "journal")})
	began := time.Now()
	happens := func(ms, worker int, does what) {
		t.Helper()
		e := event{What: does, worker: worker, at: began.Add(time.Duration(ms) * time.Millisecond)}
		if does == holds || does == wrote {
			require.NoError(t, p.journal.write(worker, e))
		}
		require.NoError(t, p.take(e))
	}
	for worker := 1; worker <= 3; worker++ {
		happens(0, worker, holds)
	}
	p.dead = &deadWorker{worker: 1, at: began}
	happens(1, 2, waiting)
	require.True(t, p.owed(), "not known to be dead")
	happens(2, 1, exited)
	happens(10, 2, wrote)
	happens(20, 4, holds)
	require.True(t, p.owed())
	happens(1500, 2, holds)
	require.False(t, p.owed())
	require.Equal(t, 1500*time.Millisecond, p.dead.back)
}
