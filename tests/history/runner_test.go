package history

import (
	"cmp"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/semaphore"

	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
	"github.com/holdfast-go/holdfast/tests/worker"
)

// The size of a history.
const (
	historians     = 4 // processes
	clientsEach    = 2
	historyLocks   = 8
	historyWait    = time.Second         // of waiters in a queue
	historySettled = 3 * kit.WorkerLease // this long after a call with an unknown outcome nothing happens any more
	busyEnd        = 4 * time.Minute     // of a history, on a busy machine
)

// deedsEach is how much a process does that is not disturbed.
var deedsEach = kit.Stressed(600, 2400)

// A subject is what a history is about, and what happens during it.
type subject struct {
	role, arg string // of the processes; further arguments are the server's address and what narrate needs
	processes int    // 0: historians
	java      javaPart
	blows     []blow
	// reports whether a client has something, by the last deed of its grant
	holding func(last deed) bool
	// reports whether the reply to a script of a process in Go is lost
	lost   func(process int, command []string) bool
	resets bool // connections are cut before a script is executed
}

func (s subject) size() int { return cmp.Or(s.processes, historians) }

// A blow hits a process after a number of deeds: the process is killed, or it is stopped for longer than its lease
// while it has something.
type blow struct {
	process, after int
	killed         bool
	holding        bool // it has something when it is killed
	replaced       bool // another process takes its place
}

// A run has processes that use locks on one server, and records what they report.
type run struct {
	*testing.T
	subject
	srv     *redistest.Server
	books   []*historybook
	workers []*worker.Worker
	killed  []time.Duration
}

// atOnce is how many processes of all histories work at once. They never pause, and more would for half a minute leave
// hardly anything of the machine to the tests beside them.
var atOnce = semaphore.NewWeighted(16)

// write lets the processes work while replies are lost and the blows fall, and returns what they reported.
func write(t *testing.T, srv *redistest.Server, about subject) record {
	t.Helper()
	size := int64(about.size())
	require.NoError(t, atOnce.Acquire(t.Context(), size))
	defer atOnce.Release(size)
	r := &run{T: t, subject: about, srv: srv}
	if javas := about.java.processes; javas > 0 {
		srv.Str(t, "SET", "begin", strconv.Itoa(javas))
		for range javas {
			r.start()
		}
		kit.AwaitFor(t, busyEnd, "Java's first deed", func() bool { return r.books[0].size() > 0 })
	}
	for len(r.workers) < about.size() {
		r.start()
	}
	var stopped []*worker.Worker
	for left := slices.Clone(about.blows); len(left) > 0; {
		b := r.nextBlow(&left)
		if b.holding || !b.killed {
			r.stopHolding(b.process)
		}
		switch w := r.workers[b.process]; {
		case !b.killed:
			stopped = append(stopped, w)
		default:
			w.Kill()
			r.killed[b.process] = worker.Now()
			if b.replaced {
				r.start()
			}
		}
	}
	if len(stopped) > 0 {
		kit.SleepUntil(time.Now().Add(kit.WorkerLease * 5 / 4))
	}
	for _, w := range stopped {
		w.Resume()
	}
	for _, w := range r.workers {
		kit.Within(t, busyEnd, w.Ended(), "the end of a history") // it is work for the processor
	}
	for _, b := range r.books {
		require.Empty(t, b.wrong)
	}
	return newRecord(r.books, r.killed)
}

// nextBlow takes the first blow that is due out of those that are left. None waits for another: the process that it is
// for may have done all that it has to by then.
func (r *run) nextBlow(left *[]blow) (next blow) {
	at := -1
	kit.AwaitFor(r, busyEnd, "deeds of a history", func() bool {
		at = slices.IndexFunc(*left, func(b blow) bool { return r.books[b.process].size() > b.after })
		return at >= 0
	})
	next = (*left)[at]
	*left = slices.Delete(*left, at, at+1)
	return next
}

// start starts one more process: one of Java, or one behind a proxy of its own.
func (r *run) start() {
	i := len(r.workers)
	b := &historybook{deeds: map[string]deed{}}
	r.books, r.killed = append(r.books, b), append(r.killed, 0)
	first, deeds := strconv.Itoa(i*clientsEach), deedsEach*historians/r.size()
	if slices.ContainsFunc(r.blows, func(b blow) bool { return b.process == i }) {
		deeds *= 2 // it may not be done before the blow falls
	}
	if i < r.java.processes {
		r.workers = append(r.workers, r.java.start(r, b, r.srv.Addr(), first, deeds))
		return
	}
	p := proxy.Start(r, r.srv.Addr())
	p.On(func(command []string) bool { return kit.AnyScript(command) && r.lost(i-r.java.processes, command) },
		proxy.DropReply, proxy.EveryTime)
	if r.resets {
		p.On(func(command []string) bool { return rand.N(deedsEach/9) == 0 && kit.AnyScript(command) }, proxy.ResetBefore,
			proxy.EveryTime)
	}
	r.workers = append(r.workers,
		worker.Start(r, b.hear, r.role, p.Addr(), first, r.arg, r.srv.Addr(), strconv.Itoa(deeds)))
}

// stopHolding stops a process at a moment at which one of its clients has something.
func (r *run) stopHolding(process int) {
	w, b := r.workers[process], r.books[process]
	holds := func() bool {
		for _, last := range b.last() {
			if r.holding(last) {
				return true
			}
		}
		return false
	}
	kit.AwaitFor(r, busyEnd, "a process that holds something", func() bool {
		if !holds() {
			return false
		}
		w.Pause()
		w.HearOut()
		if holds() {
			return true
		}
		w.Resume()
		return false
	})
}

// allOf reports whether it is this process's turn to lose all replies. The processes take turns.
func allOf(process int, each time.Duration) bool {
	return int(time.Now().UnixMilli()/each.Milliseconds())%(2*historians) == process%historians
}

// allReleasesOf is allOf for the times in between.
func allReleasesOf(process int, each time.Duration) bool {
	return int(time.Now().UnixMilli()/each.Milliseconds())%(2*historians) == historians+process%historians
}

// lockBlows kill one process, and stop another one while it holds a lock.
var lockBlows = []blow{{process: 0, after: deedsEach / 3, killed: true}, {process: 1, after: deedsEach / 2}}

// blowsOfMany are lockBlows for three times as many, of which each does a third.
var blowsOfMany = []blow{{process: 0, after: deedsEach / 9, killed: true}, {process: 1, after: deedsEach / 6}}

// holdsLock reports whether a client holds a lock.
func holdsLock(last deed) bool {
	return last.Kind == opTake && last.Out == "done" || last.Kind == opReenter || last.Kind == opCount
}

// doomed reports whether an argument is a wire owner of which the replies to all releases are lost. It is each of so
// many, whatever the speed of the machine.
func doomed(arg string) bool {
	number := wireOwner.FindStringSubmatch(arg)
	if number == nil {
		return false
	}
	n, err := strconv.Atoi(number[1])
	return err == nil && n%doomedOf == 0
}

var (
	wireOwner = regexp.MustCompile("^[0-9a-f-]{36}:([0-9]+)$")
	doomedOf  = kit.Stressed(25, 50)
)

// losing selects the replies that clients of locks do not get.
func losing(releases proxy.Match) func(process int, command []string) bool {
	return losingFor(500*time.Millisecond, releases)
}

// silences is for how long processes get no reply at all at times. A history takes twice as long on a machine that has
// nothing else to do, and on a busy one so long that thousands of calls had no outcome: nobody finds their order.
const silences = 10 * time.Second

// losingFor is losing, with that much time in which a process gets no reply.
func losingFor(each time.Duration, releases proxy.Match) func(process int, command []string) bool {
	began := time.Now()
	return func(process int, command []string) bool {
		return process < historians && time.Since(began) < silences && allOf(process, each) || // one process at a time
			releases(command) && slices.ContainsFunc(command, doomed) || // all copies
			rand.N(100) == 0
	}
}
