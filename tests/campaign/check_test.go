package campaign

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const s = time.Second

// A referee that never finds anything would prove nothing: each invariant finds what it is there for, and only that.
func TestTheRefereeFindsWhatIsWrong(t *testing.T) {
	t.Parallel()
	o := func(kind string) object { return object{kind, "x"} }
	// had is what a client tells of something that it had.
	had := func(client int, o object, from, to time.Duration, change ...func(*event)) []event {
		began := event{At: from, Client: client, What: has, Object: o, Grant: client*100 + int(from/s), Count: 1}
		for _, f := range change {
			f(&began)
		}
		ended := began
		ended.What, ended.At = still, to
		if o.thing().lasting {
			ended.What = released
		}
		return []event{began, ended}
	}
	waited := func(client int, o object, from, to time.Duration) []event {
		return []event{
			{At: from, Client: client, What: asks, Object: o, Grant: 1},
			{At: to, Client: client, What: refused, Object: o, Grant: 1},
		}
	}
	tried := func(client int, o object, asked, at time.Duration) []event {
		return []event{{At: at, Asked: asked, Client: client, What: refused, Object: o, Grant: 1, Text: busy}}
	}
	got := func(client int, o object, asked, from, to time.Duration) []event {
		all := had(client, o, from, to)
		return append([]event{{At: asked, Client: client, What: asks, Object: o, Grant: all[0].Grant}}, all...)
	}
	shared := func(e *event) { e.Shares = true }
	token := func(n int64) func(*event) { return func(e *event) { e.Token = n } }
	many := func(n int) func(*event) { return func(e *event) { e.Count = n } }
	fall := lapse{what: "fall over", from: 2 * s, to: 3 * s}
	forward := lapse{what: "set forward", from: 2 * s, to: 3 * s, leased: true}
	one := func(e event) []event { return []event{e} }
	down := one(event{At: 16 * s, Client: campaigner, What: isDown, Object: o("latch")})
	opens := func(at time.Duration) []event {
		return []event{
			{At: 2 * s, Client: 1, What: waits, Object: o("latch"), Grant: 1},
			{At: at, Client: 1, What: opened, Object: o("latch"), Grant: 1, Text: "done"},
		}
	}
	var countedDown []event
	for range latchCount {
		countedDown = append(countedDown, event{At: s, Client: 2, What: counts, Object: o("latch"), Count: 1})
	}
	for _, c := range []struct {
		name   string
		finds  []int
		events [][]event
		lapses []lapse
		behind []string
	}{
		{name: "one after the other", events: [][]event{had(1, o("rlock"), s, 2*s), had(2, o("rlock"), 3*s, 4*s)}},
		{name: "two at once", finds: []int{1}, events: [][]event{had(1, o("rlock"), s, 3*s), had(2, o("rlock"), 2*s, 4*s)}},
		{
			name:   "two at once, of different objects",
			events: [][]event{had(1, o("rlock"), s, 3*s), had(2, object{"rlock", "y"}, 2*s, 4*s)},
		},
		{
			name: "two at once, after a lapse", lapses: []lapse{fall},
			events: [][]event{had(1, o("rlock"), s, 4*s-1), had(2, o("rlock"), 3*s+1, 5*s)},
		},
		{
			name: "two at once, before a lapse", finds: []int{1}, lapses: []lapse{fall},
			events: [][]event{had(1, o("rlock"), s/2, 2*s), had(2, o("rlock"), s, 5*s)},
		},
		{
			name: "two at once, both after a lapse", finds: []int{1}, lapses: []lapse{fall},
			events: [][]event{had(1, o("rlock"), 5*s, 7*s), had(2, o("rlock"), 6*s, 8*s)},
		},
		{
			name: "a RedLock that was lost with one server", finds: []int{1}, lapses: []lapse{fall},
			events: [][]event{had(1, o("redlock"), s, 3*s), had(2, o("redlock"), 5*s/2, 4*s)},
		},
		{
			name: "several at once, and one of them", finds: []int{1},
			events: [][]event{had(1, o("several"), s, 3*s), had(2, object{"several", "x b"}, 2*s, 4*s)},
		},
		{
			name: "two readers", events: [][]event{had(1, o("rwlock"), s, 3*s, shared), had(2, o("rwlock"), 2*s, 4*s, shared)},
		},
		{
			name: "a reader and a writer", finds: []int{2},
			events: [][]event{had(1, o("rwlock"), s, 3*s, shared), had(2, o("rwlock"), 2*s, 4*s)},
		},
		{name: "a writer who reads", events: [][]event{had(1, o("rwlock"), s, 4*s), had(1, o("rwlock"), 2*s, 3*s, shared)}},
		{
			name:   "as many permits as there are",
			events: [][]event{had(1, o("permits"), s, 4*s), had(2, o("permits"), s, 4*s), had(3, o("permits"), s, 4*s)},
		},
		{
			name: "a permit too many", finds: []int{3},
			events: [][]event{had(1, o("permits"), s, 4*s, many(3)), had(2, o("permits"), 2*s, 4*s)},
		},
		{
			name: "a count too many", finds: []int{4},
			events: [][]event{had(1, o("semaphore"), s, 4*s, many(20)), had(2, o("semaphore"), 2*s, 4*s)},
		},
		{
			name: "counts after a lapse", lapses: []lapse{fall},
			events: [][]event{had(1, o("semaphore"), s, 4*s, many(20)), had(2, o("semaphore"), 3*s, 4*s)},
		},
		{
			name: "two at once, after leases ended early", lapses: []lapse{forward},
			events: [][]event{had(1, o("rlock"), s, 4*s-1), had(2, o("rlock"), 3*s+1, 5*s)},
		},
		{
			name: "two at once, long after leases ended early", finds: []int{1}, lapses: []lapse{forward},
			events: [][]event{had(1, o("rlock"), s, 5*s), had(2, o("rlock"), 4*s+1, 6*s)},
		},
		{
			name: "counts after leases ended early", finds: []int{4}, lapses: []lapse{forward},
			events: [][]event{had(1, o("semaphore"), s, 4*s, many(20)), had(2, o("semaphore"), 3*s, 4*s)},
		},
		{
			name: "told too late", finds: []int{5}, lapses: []lapse{fall},
			events: [][]event{had(1, o("rlock"), s, 4*s+1), had(2, o("rlock"), 3*s+1, 5*s)},
		},
		{
			name:   "tokens that go up",
			events: [][]event{had(1, o("leader"), s, 2*s, token(1)), had(2, o("leader"), 3*s, 4*s, token(2))},
		},
		{
			name: "a token twice", finds: []int{6},
			events: [][]event{had(1, o("leader"), s, 2*s, token(2)), had(2, o("leader"), 3*s, 4*s, token(2))},
		},
		{
			name: "a term that goes back, with a server that forgot", finds: []int{6}, lapses: []lapse{fall},
			events: [][]event{had(1, o("leader"), s, 2*s, token(2)), had(2, o("leader"), 3*s, 4*s, token(1))},
		},
		{
			name: "a term that goes back, with its clock", lapses: []lapse{fall},
			events: [][]event{
				one(event{At: s, Client: campaigner, What: strikes, Text: clockBack}),
				had(1, o("leader"), s, 2*s, token(2)), had(2, o("leader"), 3*s, 4*s, token(1)),
			},
		},
		{name: "a latch that was counted down", events: [][]event{countedDown, opens(3 * s)}},
		{name: "a latch that was not", finds: []int{7}, events: [][]event{countedDown[1:], opens(3 * s)}},
		{name: "a latch that opens in time", events: [][]event{countedDown, down, opens(16*s + latest)}},
		{name: "a latch that opens late", finds: []int{8}, events: [][]event{countedDown, down, opens(16*s + latest + 1)}},
		{name: "a latch that never opens", finds: []int{8}, events: [][]event{down, opens(0)[:1]}},
		{
			name:   "in the order of asking",
			events: [][]event{got(1, o("fairlock"), 17*s, 20*s, 21*s), got(2, o("fairlock"), 20*s, 22*s, 23*s)},
		},
		{
			name: "not in the order of asking", finds: []int{9},
			events: [][]event{got(1, o("fairlock"), 17*s, 24*s, 25*s), got(2, o("fairlock"), 20*s, 21*s, 22*s)},
		},
		{
			name:   "a wait for what others have",
			events: [][]event{had(1, o("rlock"), 30*s, 40*s), waited(2, o("rlock"), 30*s, 40*s)},
		},
		{name: "a wait for what is free", finds: []int{10}, events: [][]event{waited(2, o("rlock"), 30*s, 39*s)}},
		{
			name: "a wait between two who had it", finds: []int{10},
			events: [][]event{had(1, o("rlock"), 28*s, 29*s), waited(2, o("rlock"), 28*s, 39*s), had(3, o("rlock"), 38*s, 39*s)},
		},
		{
			name:   "a refusal of what somebody has",
			events: [][]event{had(1, o("rlock"), 30*s, 31*s), tried(2, o("rlock"), 30*s+1, 30*s+2)},
		},
		{
			name:   "a refusal of what somebody may still have",
			events: [][]event{had(1, o("rlock"), 28*s, 29*s), tried(2, o("rlock"), 30*s+1, 30*s+2)},
		},
		{
			name: "a refusal of what nobody has", finds: []int{14},
			events: [][]event{had(1, object{"rlock", "y"}, 30*s, 31*s), tried(2, o("rlock"), 30*s+1, 30*s+2)},
		},
		{name: "a refusal after the storm", events: [][]event{tried(2, o("rlock"), 16*s, 16*s+1)}},
		{name: "a key for ever", finds: []int{11}, behind: []string{"key"}},
		{name: "a goroutine", finds: []int{12}, events: [][]event{one(event{What: left, Text: "goroutine 1"})}},
		{name: "memory", finds: []int{12}, events: [][]event{one(event{What: left, Count: mostMiB + 1})}},
		{name: "an error that a stroke explains", events: [][]event{one(event{At: 16 * s, What: excused, Text: "other"})}},
		{name: "one in the calm", finds: []int{13}, events: [][]event{one(event{At: 30 * s, What: excused, Text: "other"})}},
		{name: "an error", finds: []int{13}, events: [][]event{one(event{What: strange, Text: "other"})}},
	} {
		a := &account{
			round: round{Lease: s}, lapses: c.lapses, behind: c.behind, killed: map[int]time.Duration{}, calmed: 15 * s,
			ended: 40 * s,
		}
		for _, events := range c.events {
			a.events = append(a.events, events...)
		}
		var found []int
		for _, f := range judge(a) {
			found = append(found, f.Invariant)
		}
		require.Equal(t, c.finds, found, c.name)
	}
}

// The same seed is the same campaign, and another seed is another one.
func TestASeedDecidesTheCampaign(t *testing.T) {
	t.Parallel()
	kinds := allKinds()
	require.Equal(t, plan(7, 3, kinds, true), plan(7, 3, kinds, true))
	require.NotEqual(t, plan(7, 3, kinds, true), plan(8, 3, kinds, true))
	strokes, javas := map[string]bool{}, map[string]bool{}
	for number := range 200 {
		r := plan(7, number, kinds, true)
		javas[r.Java] = true
		for _, st := range r.Strokes {
			strokes[st.What] = true
		}
	}
	all := slices.Concat(sites["single"], sites["sentinel"], sites["cluster"], ofProcesses, ofLinks, ofTheThree)
	for _, what := range all {
		require.Contains(t, strokes, what)
	}
	for kind, thing := range things {
		require.Equal(t, thing.java, javas[kind], kind)
	}
}
