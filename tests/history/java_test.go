package history

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/tests/interop"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/worker"
)

const withJava = ", with Java"

// A javaPart is what some of the processes of a history do with Redisson: the first ones.
type javaPart struct {
	processes int
	kind      string
	locks     int
	patience  time.Duration // the longest
}

// stressed: there is time for more JVMs, each of which costs as much as several processes in Go.
var stressed = kit.Stressed(0, 1) > 0

// withJava has Java do a part, with two processes, or four of twelve in CI, and hits it first: one of them is killed,
// and one stopped. Another process takes the place of the one in Go that is killed.
func (s subject) withJava(kind string, locks int, patience time.Duration) subject {
	s.java = javaPart{processes: 2, kind: kind, locks: locks, patience: patience}
	if stressed {
		s.java.processes = 1 + s.size()/4
	}
	blows := []blow{
		{process: 0, after: deedsEach * historians / s.size() / 9, killed: true},
		{process: 1, after: deedsEach * historians / s.size() / 6},
	}
	for _, b := range s.blows {
		b.process += s.java.processes
		b.replaced = b.killed
		blows = append(blows, b)
	}
	s.blows = blows
	return s
}

// start starts a process. Its replies do not get lost: Redisson takes nothing back, so nobody could tell what a thread
// has of which it did not hear.
func (p javaPart) start(r *run, b *historybook, addr, first string, deeds int) *worker.Worker {
	millis := func(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
	return worker.StartCommand(r, b.hear, "historian in Java", interop.Command(r, "Historian", addr, p.kind, first,
		strconv.Itoa(clientsEach), strconv.Itoa(deeds/clientsEach), strconv.Itoa(p.locks), millis(p.patience),
		millis(kit.WorkerLease)))
}

// sureUntil is the moment until which nothing of a thread's grant can have ended; 0: it has none.
func (d deed) sureUntil() time.Duration {
	if d.Kind == opTake && d.Out == "done" {
		return d.Call + kit.WorkerLease - interop.Slack
	}
	return d.Until
}

// isLate reports whether a thread's grant may have ended by the time of the deed.
func (d deed) isLate() bool {
	until := d.sureUntil()
	return d.Java && until > 0 && d.Return > until
}

// mayEnd returns what may have ended by the time of a thread's deed, since the one before it: all of its grant, in the
// halves that it has had, once the lease is over that its first call asked for, even before that has returned. A
// watchdog has renewed it since, or not; nobody tells the thread. What a re-entry has taken anew may end, too, before
// it returns, if that takes longer than a lease.
func (d deed) mayEnd(had map[grantHalf]bool) (all []deed) {
	if !d.isLate() {
		return nil
	}
	for _, half := range []string{"", halfRead, halfWrite} {
		if had[grantHalf{d.Tag, half}] {
			all = append(all, deed{Client: d.Client, Java: true, Lock: d.Lock, Half: half, Kind: opOrphan, Tag: d.Tag})
		}
	}
	if d.Kind == opReenter && d.Return-d.Call > kit.WorkerLease {
		all = append(all, all...)
	}
	return all
}

// afterJavas is afterDeed for a thread in Java. Redisson asks the server each time: what it answers is so, whatever the
// thread believes, and it takes anew what the thread believes to re-enter.
func afterJavas(s tenancy, d deed) []tenancy {
	mine := s.tag == d.Tag
	switch what := d.Kind + " " + d.Out; {
	case what == "orphan " && mine:
		return []tenancy{s, ghost}
	case what == "release lost":
		return only(!mine, s)
	case what == "release done" && !mine: // as Redisson answers for any fair lock that is free
		return only(s.free() || s == ghost, tenancy{})
	case d.Kind == opCount && !mine:
		return only(d.Out == "0", s)
	case d.Kind == opReenter && !mine && d.Out != "unknown":
		d.Kind = opTake
	}
	return afterDeed(s, d)
}

// afterJavasShare is afterJavas for read-write locks.
func afterJavasShare(s sharing, d deed) []sharing {
	mine := s.of(d.Tag)
	has, nothing := mine.has(d.Half), mine.reads+mine.writes == 0
	switch what := d.Kind + " " + d.Out; {
	case what == "orphan " && has > 0:
		return []sharing{s, s.with(mine.plus(d.Half, -has)).left(d.Half)}
	case what == "release lost" && has > 0:
		return nil
	case d.Kind == opReenter && nothing && d.Out != "unknown":
		d.Kind = opTake
	case what == "re-enter busy": // a reader is in its own way as a writer
		if d.Half == halfRead || mine.writes > 0 {
			return nil
		}
		return []sharing{s}
	}
	if next, ok := afterShared(s, d); ok {
		return []sharing{next}
	}
	return nil
}

// requireMixed checks that the locks went from one language to the other and back, and that a thread which was stopped
// has found out that it had lost its lock.
func (r record) requireMixed(t *testing.T) {
	t.Helper()
	last, passed, lost := map[string]bool{}, map[bool]int{}, 0
	takes := slices.DeleteFunc(slices.Clone(r.deeds), func(d deed) bool { return d.Kind != opTake || d.Out != "done" })
	slices.SortFunc(takes, func(a, b deed) int { return int(a.Return - b.Return) })
	for _, d := range takes {
		if last[d.Lock] != d.Java {
			passed[d.Java]++
		}
		last[d.Lock] = d.Java
	}
	for _, d := range r.deeds {
		if d.Kind != opTake && d.isLate() {
			lost++
		}
	}
	t.Log(passed[true], "passed on to Java,", passed[false], "back;", lost,
		"deeds in Java without a lease that is certain")
	least := len(takes) / 100 // some fifty change the language where 550 are taken, and four where 260 are
	require.Greater(t, passed[true], least)
	require.Greater(t, passed[false], least)
	require.NotZero(t, lost)
}

// Each end is looked for between two deeds. If each deed's might be at any time since the lease was over, there would
// be more orders than a checker can try, as after a re-entry for which a process was stopped.
func TestWhatJavaHasMayEndBetweenAnyTwoDeeds(t *testing.T) {
	t.Parallel()
	const ms, until = time.Millisecond, 1010 * time.Millisecond
	at := func(from, to time.Duration, kind, out string) deed {
		return deed{Java: true, Kind: kind, Tag: "java", Out: out, Call: from, Return: to, Until: until}
	}
	for _, c := range []struct {
		deeds []deed
		ends  map[string]int
	}{
		{
			[]deed{
				at(13*ms, 18*ms, opTake, "done"), at(900*ms, 910*ms, opCount, "1"), at(1100*ms, 1110*ms, opCount, "1"),
				at(1120*ms, 2200*ms, opReenter, "done"), at(2210*ms, 2220*ms, opRelease, "done"),
			},
			map[string]int{"1.01s 1.11s": 1, "1.11s 2.2s": 2, "2.2s 2.22s": 1},
		},
		{ // somebody else may have it before the thread has heard that it had
			[]deed{at(13*ms, 2800*ms, opTake, "done"), at(2810*ms, 2820*ms, opRelease, "lost")},
			map[string]int{"1.01s 2.8s": 1, "2.8s 2.82s": 1},
		},
	} {
		ended := map[string]int{}
		for _, o := range (record{deeds: c.deeds}).grants() {
			if o.Input.(deed).Kind == opOrphan {
				ended[fmt.Sprint(time.Duration(o.Call), time.Duration(o.Return))]++
			}
		}
		require.Equal(t, c.ends, ended)
	}
}

// A checker that never finds anything would prove nothing.
func TestTheModelsRefuseWhatJavaMayNotSee(t *testing.T) {
	t.Parallel()
	java := func(kind, out string) deed { return deed{Java: true, Client: 1, Kind: kind, Tag: "java", Out: out} }
	golang := func(kind, out string) deed { return deed{Client: 2, Kind: kind, Tag: "go", Out: out} }
	of := func(half string, d deed) deed {
		d.Half = half
		return d
	}
	took, ended, tookIt, gaveIt := java(opTake, "done"), java(opOrphan, ""), golang(opTake, "done"),
		golang(opRelease, "done")
	const r, w = halfRead, halfWrite
	for _, c := range []struct {
		name    string
		model   porcupine.Model
		history []deed
		legal   bool
	}{
		{"Go beside Java", reentrantMutex, []deed{took, tookIt}, false},
		{"Java beside Go", reentrantMutex, []deed{tookIt, took}, false},
		{"Java beside Go, on re-entry", reentrantMutex, []deed{took, ended, tookIt, java(opReenter, "done")}, false},
		{"Go after Java's lease", reentrantMutex, []deed{took, ended, tookIt, gaveIt, java(opRelease, "lost")}, true},
		{
			"Java's lease renewed", reentrantMutex,
			[]deed{took, ended, golang(opTake, "busy"), java(opCount, "1"), java(opRelease, "done")},
			true,
		},
		{"Go after Java's lease was renewed", reentrantMutex, []deed{took, ended, java(opCount, "1"), tookIt}, false},
		{"Java's hold lost within its lease", reentrantMutex, []deed{took, java(opRelease, "lost")}, false},
		{"Java's count lost within its lease", reentrantMutex, []deed{took, java(opCount, "0")}, false},
		{"Java's re-entry refused within its lease", reentrantMutex, []deed{took, java(opReenter, "busy")}, false},
		{
			"Java's lock taken anew", reentrantMutex,
			[]deed{
				took, ended, tookIt, gaveIt, java(opReenter, "done"), java(opCount, "1"), golang(opTake, "busy"),
				java(opRelease, "done"), java(opRelease, "lost"),
			},
			true,
		},
		{
			"Go beside what Java has taken anew", reentrantMutex,
			[]deed{took, ended, tookIt, gaveIt, java(opReenter, "done"), tookIt},
			false,
		},
		{
			"Java's fair lock, released when it is free", reentrantMutex,
			[]deed{took, ended, tookIt, gaveIt, java(opRelease, "done")},
			true,
		},
		{
			"Java's fair lock, released when Go has it", reentrantMutex,
			[]deed{took, ended, tookIt, java(opRelease, "done")},
			false,
		},

		{"a Go writer beside a Java reader", readWriteLock, []deed{of(r, took), of(w, tookIt)}, false},
		{"a Go reader beside a Java reader", readWriteLock, []deed{of(r, took), of(r, tookIt)}, true},
		{"a Java reader beside a Go writer", readWriteLock, []deed{of(w, tookIt), of(r, took)}, false},
		{"a Java reader who comes to write", readWriteLock, []deed{of(r, took), of(w, java(opReenter, "done"))}, false},
		{"a Java reader who is refused to write", readWriteLock, []deed{of(r, took), of(w, java(opReenter, "busy"))}, true},
		{"a Java writer who is refused to read", readWriteLock, []deed{of(w, took), of(r, java(opReenter, "busy"))}, false},
		{
			"a Go writer after a Java reader's lease", readWriteLock,
			[]deed{
				of(r, took), of(r, ended), of(w, tookIt), of(r, java(opReenter, "busy")), of(w, gaveIt),
				of(r, java(opRelease, "lost")),
			},
			true,
		},
		{"a Java hold lost within its lease", readWriteLock, []deed{of(w, took), of(w, java(opRelease, "lost"))}, false},
		{
			"a Java hold taken anew beside a Go writer", readWriteLock,
			[]deed{of(w, took), of(w, ended), of(w, tookIt), of(w, java(opReenter, "done"))},
			false,
		},
	} {
		var history []porcupine.Operation
		for i, d := range c.history {
			history = append(history, happened(d, int64(2*i), int64(2*i+1)))
		}
		require.Equal(t, c.legal, porcupine.CheckOperations(c.model, history), c.name)
	}
}
