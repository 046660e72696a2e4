package drill

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const s = time.Second

func at(d time.Duration) time.Time { return time.Unix(0, 0).Add(d) }

// report judges a history of a lock, another one, and one that several may have. The last two are held for long.
func report(beliefs ...Belief) *Report {
	h := &History{
		Locks:   []Lock{{Label: "a"}, {Label: "b", Long: true}, {Kind: permits, Label: "c", Long: true}},
		End:     100 * s,
		Beliefs: beliefs,
		When:    at,
	}
	return h.Report(2*s, 3*s)
}

func outage(from, to time.Duration, locks ...string) Outage {
	return Outage{From: at(from), To: at(to), MS: (to - from).Milliseconds(), Locks: locks}
}

// The time in which somebody has a lock is none of an outage, and neither is another lock's.
func TestOutages(t *testing.T) {
	t.Parallel()
	r := report(Belief{From: 1 * s, To: 40 * s}, Belief{Lock: 1, From: 43 * s, To: 44 * s},
		Belief{From: 50 * s, To: 51 * s}, Belief{From: 45 * s, To: 46 * s}, Belief{From: 52 * s, To: 99 * s})
	require.Equal(t, []Outage{outage(40*s, 45*s, "a"), outage(46*s, 50*s, "a")}, r.Outages)
	require.EqualValues(t, 9000, r.UnavailableMS)
	require.EqualValues(t, 5000, r.LongestMS)
	require.Equal(t, 5, r.Taken)
	require.Equal(t, []Outage{outage(0, 100*s, "a")}, report().Outages, "nobody took it at all")
}

// Locks that nobody can take for the same time are told of together; the others overlap.
func TestOutagesOfSeveralLocks(t *testing.T) {
	t.Parallel()
	h := &History{Locks: []Lock{{Label: "a"}, {Label: "b"}, {Label: "c"}}, End: 30 * s, When: at}
	h.Beliefs = []Belief{
		{Lock: 0, To: 5 * s},
		{Lock: 1, To: 6 * s},
		{Lock: 2, To: 5 * s},
		{Lock: 0, From: 9 * s, To: 30 * s},
		{Lock: 1, From: 10 * s, To: 20 * s},
		{Lock: 2, From: 12 * s, To: 30 * s},
		{Lock: 1, From: 23 * s, To: 30 * s},
	}
	r := h.Report(2*s, s)
	require.Equal(t, []Outage{outage(5*s, 10*s, "a", "b"), outage(5*s, 12*s, "c"), outage(20*s, 23*s, "b")}, r.Outages)
	require.EqualValues(t, 10_000, r.UnavailableMS)
	require.EqualValues(t, 7000, r.LongestMS)
}

// Of two permits one is free while one process alone has one.
func TestOutagesOfPermits(t *testing.T) {
	t.Parallel()
	h := &History{Locks: []Lock{{Kind: permits, Label: "c"}}, End: 30 * s, When: at}
	h.Beliefs = []Belief{{To: 30 * s}, {From: s, To: 20 * s}, {From: 23 * s, To: 30 * s}}
	require.Equal(t, []Outage{outage(20*s, 23*s, "c")}, h.Report(2*s, s).Outages)
}

func TestSecondHolders(t *testing.T) {
	t.Parallel()
	ms := func(n int64) *int64 { return &n }
	first := Belief{Process: 1, From: 0, To: 12 * s, Told: 13 * s}
	second := Belief{Process: 2, From: 10 * s, To: 20 * s}
	r := report(second, first, Belief{Process: 3, From: 20 * s, To: 21 * s}, Belief{Lock: 1, From: 15 * s, To: 16 * s})
	want := Second{"a", 2, at(10 * s), 1, 2000, ms(3000), true}
	require.Equal(t, []Second{want}, r.Seconds)
	require.Zero(t, r.Untold)

	first.Told = 14 * s
	want.ToldMS, want.InTime = ms(4000), false
	r = report(second, first)
	require.Equal(t, []Second{want}, r.Seconds, "too late")
	require.Equal(t, 1, r.Untold)

	first.Told, want.ToldMS = 0, nil
	require.Equal(t, []Second{want}, report(second, first).Seconds, "never")
}

// Of those that have permits, it is enough if one is told.
func TestSecondHoldersOfPermits(t *testing.T) {
	t.Parallel()
	late, soon := Belief{Lock: 2, Process: 1, To: 9 * s, Told: 9 * s}, Belief{Lock: 2, Process: 2, To: 5 * s, Told: 5 * s}
	third := Belief{Lock: 2, Process: 3, From: 4 * s, To: 20 * s}
	after := int64(1000)
	require.Equal(t, []Second{{"c", 3, at(4 * s), 2, 1000, &after, true}}, report(late, soon, third).Seconds)
	require.Empty(t, report(late, third).Seconds)
}

func TestTokensThatGoBack(t *testing.T) {
	t.Parallel()
	r := report(Belief{From: 0, To: 1 * s, Token: 7}, Belief{From: 2 * s, To: 3 * s, Token: 8},
		Belief{From: 3 * s, To: 4 * s, Token: 1}, Belief{From: 5 * s, To: 6 * s, Token: 2}, Belief{From: 7 * s, To: 8 * s},
		Belief{Lock: 1, From: 9 * s, Token: 1})
	require.Equal(t, []Return{{"a", at(3 * s), 1, 8}}, r.Returns)
}

func TestFailedCallsAndLosses(t *testing.T) {
	t.Parallel()
	h := &History{Locks: []Lock{{Label: "a"}}, End: s, When: at}
	h.Take(Event{Error: "down"}, at(s))
	h.Take(Event{Error: "away"}, at(2*s))
	h.Take(Event{Error: "down", Belief: &Belief{To: s}}, at(3*s))
	h.Take(Event{Error: "gone", Lost: true, Belief: &Belief{Process: 3, From: s, To: 3 * s, Told: 4 * s}}, at(5*s))
	r := h.Report(2*s, s)
	require.Equal(t, []*Failure{{"down", 2, at(s), at(3 * s)}, {"away", 1, at(2 * s), at(2 * s)}}, r.Failed)
	require.Equal(t, []Loss{{"a", 3, at(4 * s), 2000, "gone"}}, r.Lost)
	require.Equal(t, 2, r.Taken)
}
