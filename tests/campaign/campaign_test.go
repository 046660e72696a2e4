// Package campaign lets processes of Holdfast and of Redisson do at random whatever the toolkit offers, while a nemesis
// strikes processes, connections and servers. A referee judges what they tell by invariants, each of which stands for a
// guarantee. A seed, which is logged, decides who plays what and what befalls whom when. The timing is the machine's,
// and which of many commands a stroke loses is chance.
//
//	cd tests && go test -race -v -timeout 0 ./campaign -args -minutes 60 -seed 7 -kinds rlock,rwlock
package campaign

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/semaphore"
	"github.com/holdfast-go/holdfast/tests/interop"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/worker"
)

func TestMain(m *testing.M) { kit.Main(m, map[string]func([]string){"player": player}) }

var (
	minutes = flag.Float64("minutes", 0,
		"how long the campaign goes on; 0: a round, or one for each kind of deployment if HOLDFAST_STRESS is set")
	seed   = flag.Uint64("seed", 1, "what decides everything")
	only   = flag.String("kinds", "", "what is played, separated by commas; the default is everything")
	single = flag.Int("round", -1, "play this round only")
	atOnce = flag.Int("at-once", 2, "rounds that are played at the same time")
)

// TestCampaign plays rounds until the time is up.
func TestCampaign(t *testing.T) {
	t.Parallel()
	kinds := allKinds()
	if *only != "" {
		kinds = strings.Split(*only, ",")
		for _, kind := range kinds {
			require.Contains(t, things, kind, "-kinds: one of %v", allKinds())
		}
	}
	_, err := interop.Classpath("")
	java := err == nil
	if !errors.Is(err, interop.ErrNoJava) {
		require.NoError(t, err)
	}
	t.Logf("seed %d, with Java: %v", *seed, java)
	rounds := make(chan int)
	var wg sync.WaitGroup
	for range *atOnce {
		wg.Go(func() {
			for number := range rounds {
				t.Run(fmt.Sprintf("round %d", number), func(t *testing.T) {
					newRun(t, plan(*seed, number, kinds, java)).judge()
				})
			}
		})
	}
	end := time.Now().Add(time.Duration(*minutes * float64(time.Minute)))
	if *single >= 0 {
		rounds <- *single
	}
	least := kit.Stressed(1, len(siteNames))
	for number := 0; *single < 0 && (number < least || time.Now().Before(end)); number++ {
		rounds <- number
	}
	close(rounds)
	wg.Wait()
}

// mostSaid is how many findings of one invariant are said; the record has all.
const mostSaid = 3

// campaigner is the client that is the campaign itself; no stroke hits it.
const campaigner = -1

// javas are the clients in Java; they have numbers of their own.
const javas = 100_000

// A run is a round that is played.
type run struct {
	*stage
	account account
	session *holdfast.Session
	slots   []*slot
	next    int // client
	java    *worker.Worker
	dawn    time.Duration

	mu     sync.Mutex
	events []event
	deeds  map[string]deed // of Java
	wrong  []string
}

// A slot is the place of a process; another one comes after one that was killed.
type slot struct {
	*worker.Worker
	first   int            // of its clients
	stopped *worker.Worker // the process, while it is
	proxy   *proxy.Proxy   // before the server, if it is a single one
}

func newRun(t *testing.T, r round) *run {
	t.Helper()
	t.Log(r)
	one := &run{stage: newStage(t, r), deeds: map[string]deed{}}
	one.account = account{round: r, killed: map[int]time.Duration{}}
	t.Cleanup(one.save)
	return one
}

func (r *run) tell(e event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

func (r *run) hear(line string) {
	var e event
	if r.reads(line, &e) {
		r.tell(e)
	}
}

// reads reads what a process says, and notes what it cannot read.
func (r *run) reads(line string, into any) bool {
	err := json.Unmarshal([]byte(line), into)
	if err != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.wrong = append(r.wrong, line)
	}
	return err == nil
}

// judge plays the round, and fails the test for each finding.
func (r *run) judge() {
	r.Helper()
	r.play()
	r.account.lapses = append(r.account.lapses, r.lapses...)
	r.account.events = r.events
	r.forcedLapses()
	r.account.addJava(r.deeds)
	r.account.since(r.dawn)
	findings := judge(&r.account)
	r.report(findings)
	said := map[int]int{}
	for _, f := range findings {
		inv := invariants[f.Invariant-1]
		if said[f.Invariant]++; said[f.Invariant] <= mostSaid {
			r.Errorf("invariant %d (%s: %s): %s", f.Invariant, inv.guarantee, inv.what, f.Text)
		}
	}
	require.Empty(r, r.wrong)
}

// save keeps what everybody told of a round that has failed.
func (r *run) save() {
	if !r.Failed() {
		return
	}
	path := filepath.Join(r.ArtifactDir(), "events.jsonl")
	f, err := os.Create(path)
	if err != nil {
		r.Error(err)
		return
	}
	defer f.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	enc := json.NewEncoder(f)
	for _, e := range r.events {
		_ = enc.Encode(e)
	}
	for _, d := range r.deeds {
		_ = enc.Encode(d)
	}
	r.Logf("what everybody told: %s, with -artifacts", path)
}

// forcedLapses are the times in which somebody freed something by force.
func (r *run) forcedLapses() {
	began := map[int]time.Duration{}
	for _, e := range r.events {
		switch e.What {
		case forces:
			began[e.Client] = e.At
			// until it is known when it ended
			r.account.lapses = append(r.account.lapses, lapse{
				name: e.Object.Name, what: "forced", from: e.At, to: e.At + r.round.Lease,
			})
		case forced:
			for i, l := range r.account.lapses {
				if l.name == e.Object.Name && l.from == began[e.Client] {
					r.account.lapses[i].to = e.At
				}
			}
		}
	}
}

// play is the round, from the first process to the last.
func (r *run) play() {
	r.Helper()
	r.dawn = worker.Now()
	r.session = r.open()
	kit.Await(r, "the permits", func() bool { return r.setPermits() == nil })
	if r.round.Java != "" {
		r.startJava()
	}
	for range players {
		sl := &slot{}
		if r.round.Site == "single" {
			sl.proxy = proxy.Start(r, r.nodes[0].Addr())
		}
		r.slots = append(r.slots, sl)
		r.fill(sl)
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	var wg sync.WaitGroup
	for _, o := range r.round.Objects {
		if o.Kind == "latch" {
			wg.Go(func() { r.keepLatches(ctx, o) })
		}
	}
	r.strikeAll()
	r.account.calmed = worker.Now()
	kit.SleepUntil(time.Now().Add(r.round.calm()))
	r.account.ended = worker.Now()
	cancel()
	for _, sl := range r.slots {
		sl.End()
	}
	for _, sl := range r.slots {
		kit.Within(r, time.Minute, sl.Ended(), "the end of a process")
	}
	for _, sl := range r.slots {
		r.account.living = append(r.account.living, sl.first)
	}
	wg.Wait()
	if r.java != nil {
		r.java.Kill()
	}
	r.unasked()
	r.account.behind = r.lastingKeys()
}

// setPermits sets the permits of semaphores that have none.
func (r *run) setPermits() (failed error) {
	ctx, cancel := context.WithTimeout(r.Context(), time.Second)
	defer cancel()
	for _, o := range r.round.Objects {
		var err error
		switch o.Kind {
		case "permits":
			_, err = semaphore.NewExpirable(r.session, o.Name, nil).TrySetPermits(ctx, o.thing().permits)
		case "semaphore":
			_, err = semaphore.New(r.session, o.Name).TrySetPermits(ctx, o.thing().permits)
		}
		failed = cmp.Or(failed, err)
	}
	return failed
}

// open opens a session that no stroke of processes and connections hits.
func (r *run) open() *holdfast.Session {
	addrs, set := r.reach(nil)
	s, err := holdfast.Open(
		rueidis.ClientOption{InitAddress: addrs, Sentinel: rueidis.SentinelOption{MasterSet: set}},
		&holdfast.Options{Lease: r.round.Lease, Anonymous: true},
	)
	require.NoError(r, err)
	r.Cleanup(func() { _ = s.Close() })
	return s
}

// reach tells how a process finds the servers.
func (r *run) reach(p *proxy.Proxy) (addrs []string, masterSet string) {
	switch {
	case r.sentinel != nil:
		return r.sentinel.SentinelAddrs(), r.sentinel.MasterName
	case r.cluster != nil:
		return r.cluster.Addrs(), ""
	case p != nil:
		return []string{p.Addr()}, ""
	}
	return []string{r.front.Addr()}, ""
}

// fill starts a process in a slot.
func (r *run) fill(sl *slot) {
	r.Helper()
	sl.first, r.next = r.next, r.next+clientsEach
	p := part{Round: r.round, First: sl.first, Dawn: r.dawn}
	p.Addrs, p.MasterSet = r.reach(sl.proxy)
	for _, srv := range r.red {
		p.Red = append(p.Red, srv.Addr())
	}
	text, err := json.Marshal(p)
	require.NoError(r, err)
	sl.Worker = worker.Start(r, r.hear, "player", string(text))
}

// An act is the beginning or the end of a stroke.
type act struct {
	at time.Duration
	do func()
}

// strikeAll does what the round's plan says, in its order, and undoes it. What takes longer delays what follows.
func (r *run) strikeAll() {
	r.Helper()
	var acts []act
	for _, st := range r.round.Strokes {
		var undo func() // nil: there is nothing to undo
		acts = append(acts, act{st.At, func() {
			began := time.Now()
			var struck bool
			if undo, struck = r.strikeOne(st); !struck {
				return
			}
			r.tell(event{At: worker.Now(), Client: campaigner, What: strikes, Text: st.What, Count: st.Victim})
			_ = r.setPermits() // a server may have forgotten how many there are
			if took := time.Since(began); took > 3*time.Second {
				r.Logf("to %s took %v", st.What, took.Round(time.Millisecond))
			}
		}})
		if st.Lasts > 0 {
			acts = append(acts, act{st.At + st.Lasts, func() {
				if undo == nil {
					return
				}
				undo()
				r.tell(event{At: worker.Now(), Client: campaigner, What: undoes, Text: st.What, Count: st.Victim})
			}})
		}
	}
	slices.SortStableFunc(acts, func(a, b act) int { return int(a.at - b.at) })
	began := time.Now()
	for _, a := range acts {
		kit.SleepUntil(began.Add(a.at))
		a.do()
	}
	kit.SleepUntil(began.Add(storm))
}

// strikeOne does one stroke, if it can, and returns how it is undone.
func (r *run) strikeOne(st stroke) (undo func(), struck bool) {
	r.Helper()
	sl := r.slots[st.Victim%players]
	switch {
	case st.What == "kill":
		sl.Kill()
		for i := range clientsEach {
			r.account.killed[sl.first+i] = worker.Now()
		}
		r.fill(sl)
	case st.What == "stop", st.What == "stop for long":
		w := sl.Worker
		if sl.stopped == w { // by an earlier stroke, which ends it
			return nil, false
		}
		sl.stopped = w
		w.Pause()
		return func() {
			w.Resume()
			if sl.stopped == w {
				sl.stopped = nil
			}
		}, true
	case slices.Contains(ofLinks, st.What):
		return r.strikeLink(sl.proxy, st), true
	default:
		var proxies []*proxy.Proxy
		for _, sl := range r.slots {
			if sl.proxy != nil {
				proxies = append(proxies, sl.proxy)
			}
		}
		return r.strike(st, proxies)
	}
	return nil, true
}

// keepLatches makes a latch for each period, and counts it down when that is over.
func (r *run) keepLatches(ctx context.Context, o object) {
	for ctx.Err() == nil {
		period := int64((worker.Now()-r.dawn)/latchPeriod) + 1
		name := latchName(o, period)
		l := latch.New(r.session, name)
		e := event{Client: campaigner, Object: object{o.Kind, name}, Count: 1}
		if set, err := l.TrySetCount(ctx, latchCount); err != nil || !set {
			pause(ctx, 10*time.Millisecond)
			continue
		}
		pause(ctx, r.dawn+time.Duration(period+1)*latchPeriod-worker.Now())
		for ctx.Err() == nil {
			if n, err := l.Count(ctx); err == nil && n == 0 {
				e.What, e.At = isDown, worker.Now()
				r.tell(e)
				break
			}
			e.What, e.At = counts, worker.Now()
			r.tell(e)
			if l.CountDown(ctx) != nil {
				pause(ctx, 10*time.Millisecond)
			}
		}
	}
}

// lastingKeys are the keys that have no time to live and should have one.
func (r *run) lastingKeys() (keys []string) {
	nodes := slices.Concat(r.nodes, r.red)
	if r.replica != nil {
		nodes = append(nodes, r.replica)
	}
	for _, n := range nodes {
		if role(n) != "master" {
			continue
		}
		for key, v := range n.Keyspace(r) {
			if !v.Expires && !mayLast(key, r.round.Objects) {
				keys = append(keys, fmt.Sprintf("%s: %v", key, v))
			}
		}
	}
	return keys
}

// mayLast reports whether a key may have no time to live: counts are data, tokens go on, and so do Redisson's own keys
// of fair locks and permits until the next look.
func mayLast(key string, objects []object) bool {
	return key == "begin" || slices.ContainsFunc(objects, func(o object) bool {
		of := func(prefix string) bool { return key == prefix+":{"+o.Name+"}" }
		return o.thing().fenced && of("redisson_lock_token") ||
			o.thing().queued && (of("redisson_lock_queue") || of("redisson_lock_timeout")) ||
			o.thing().permits > 0 && (key == o.Name || key == wire.PermitsKey(o.Name)) ||
			o.Kind == "latch" && strings.HasPrefix(key, o.Name+" of period ")
	})
}

// startJava starts a process with Redisson, and waits until it plays.
func (r *run) startJava() {
	r.Helper()
	addrs, set := r.reach(nil)
	address := strings.Join(addrs, ",")
	if set != "" {
		address = set + "@" + address
	}
	if r.cluster != nil {
		r.cluster.NodeOf(r, "begin").Do(r, "SET", "begin", "1")
	} else {
		r.nodes[0].Do(r, "SET", "begin", "1")
	}
	n := 0
	for _, o := range r.round.Objects {
		if o.Kind == r.round.Java {
			n++
		}
	}
	started := make(chan struct{})
	var once sync.Once
	millis := func(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
	r.java = worker.StartCommand(r, func(line string) {
		var d deed
		if !r.reads(line, &d) {
			return
		}
		r.mu.Lock()
		r.deeds[fmt.Sprint(d.Client, " ", d.Serial)] = d
		r.mu.Unlock()
		once.Do(func() { close(started) })
	}, "historian in Java", interop.Command(r, "Historian", address, r.round.Java, strconv.Itoa(javas),
		strconv.Itoa(clientsEach), "1000000", strconv.Itoa(n), millis(300*time.Millisecond), millis(r.round.Lease),
		"tolerant"))
	kit.Within(r, time.Minute, started, "a process with Redisson")
}
