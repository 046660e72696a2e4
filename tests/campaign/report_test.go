package campaign

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	record = flag.String("record", "", "a file to which each round adds a line about itself")
	page   = flag.String("page", "", "a page in which the tables of that file are renewed; nothing is played then")
)

// A summary is a line of the record.
type summary struct {
	Number     int
	Seed       uint64
	Site       string
	Server     string
	Java       string
	Seconds    float64
	Operations map[string]int // what was had, by kind and language
	Strokes    map[string]int
	Refused    int           // calls that got nothing
	Lost       int           // holds
	Second     int           // holders that a server made by forgetting
	ToldWithin time.Duration // the longest time until the first one of two was told
	Findings   []finding
}

// report logs what the round consisted of, and adds it to the record.
func (r *run) report(findings []finding) {
	s := summary{
		Number: r.round.Number, Seed: r.round.Seed, Site: r.round.Site, Server: r.version(), Java: r.round.Java,
		Seconds: r.account.ended.Seconds(), Operations: map[string]int{}, Strokes: map[string]int{}, Findings: findings,
	}
	for _, t := range r.account.tenures {
		if t.java {
			s.Operations[t.object.Kind+", Java"]++
		}
	}
	for _, e := range r.account.events {
		switch {
		case e.What == refused:
			s.Refused++
		case e.What == has:
			s.Operations[e.Object.Kind+", Go"]++
		case e.What == over && strings.Contains(e.Text, "lost"):
			s.Lost++
		case e.What == opened && e.Text == "done":
			s.Operations[e.Object.Kind+", Go"]++
		case e.What == strikes:
			s.Strokes[e.Text]++
		}
	}
	s.Second, s.ToldWithin = r.account.secondHolders()
	r.Logf("had %v; %d calls got nothing, %d holds were lost; a server forgot, and made %d second holders, told within %v",
		s.Operations, s.Refused, s.Lost, s.Second, s.ToldWithin)
	if *record == "" {
		return
	}
	text, err := json.Marshal(s)
	require.NoError(r, err)
	f, err := os.OpenFile(*record, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	require.NoError(r, err)
	defer f.Close()
	_, err = f.Write(append(text, '\n'))
	require.NoError(r, err)
}

// version is that of the first server that answers.
func (r *run) version() string {
	for _, n := range r.nodes {
		reply, err := n.Try("INFO", "server")
		text, _ := reply.(string)
		if err != nil {
			continue
		}
		for _, name := range []string{"valkey", "redis"} {
			for line := range strings.Lines(text) {
				if v, ok := strings.CutPrefix(strings.TrimSpace(line), name+"_version:"); ok {
					return name + " " + v
				}
			}
		}
	}
	return "unknown"
}

// secondHolders counts those who got what somebody else still believed to have, because a server had forgotten it, and
// the longest time until that one was told.
func (a *account) secondHolders() (n int, toldWithin time.Duration) {
	a.seconds(func(first, second tenure, _ *lapse) {
		n++
		toldWithin = max(toldWithin, first.to-second.from)
	})
	return n, toldWithin
}

// The part of the page that is made of the record stands between these lines.
const (
	pageBegin = "<!-- The tables down to the next such line are made by make campaign-page. -->\n"
	pageEnd   = "<!-- Down to here. -->\n"
)

// The tables of the page are those of the record.
func TestPage(t *testing.T) {
	if *page == "" {
		t.Log("with -page only")
		return
	}
	f, err := os.Open(*record)
	require.NoError(t, err)
	defer f.Close()
	var all []summary
	for scanner := bufio.NewScanner(f); scanner.Scan(); {
		var s summary
		require.NoError(t, json.Unmarshal(scanner.Bytes(), &s))
		all = append(all, s)
	}
	text, err := os.ReadFile(*page)
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(text), pageBegin)
	require.True(t, ok, "the page has no line %q", pageBegin)
	_, after, ok := strings.Cut(rest, pageEnd)
	require.True(t, ok, "the page has no line %q", pageEnd)
	require.NoError(t, os.WriteFile(*page, []byte(before+pageBegin+"\n"+tables(all)+"\n"+pageEnd+after), 0o644))
}

// The page has each invariant and each bug, in the order of the bugs, and a place for the tables.
func TestThePageHasWhatIsJudgedAndSeeded(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root(), "docs", "evidence.md"))
	require.NoError(t, err)
	_, rest, ok := strings.Cut(string(text), "## The invariants\n")
	require.True(t, ok)
	said, rest, ok := strings.Cut(rest, "\n## ")
	require.True(t, ok)
	var rows []string
	for line := range strings.Lines(said) {
		if strings.HasPrefix(line, "| ") && !strings.HasPrefix(line, "| |") {
			rows = append(rows, line)
		}
	}
	require.Len(t, rows, len(bugs))
	for i, b := range bugs {
		inv := invariants[b.catches-1]
		require.Regexp(t, "^"+regexp.QuoteMeta(fmt.Sprintf("| %d | %s | %s | %d: %s | ", b.catches, inv.guarantee, inv.what,
			i+1, b.what))+"[^| ][^|]* \\|\n$", rows[i])
	}
	for i := range invariants {
		seeded := slices.ContainsFunc(bugs, func(b bug) bool { return b.catches == i+1 })
		require.True(t, seeded, "invariant %d has no bug", i+1)
	}
	require.Less(t, strings.Index(rest, pageBegin), strings.Index(rest, pageEnd))
	require.Contains(t, rest, pageBegin)
}

// tables are what the page says of the rounds.
func tables(all []summary) string {
	type sum struct {
		rounds, refused, lost, second, findings int
		seconds                                 float64
		told                                    time.Duration
	}
	places, had, strokes := map[string]*sum{}, map[string]map[string]int{}, map[string]int{}
	for _, s := range all {
		place := s.Site + " | " + s.Server
		if places[place] == nil {
			places[place] = &sum{}
		}
		p := places[place]
		p.rounds++
		p.seconds += s.Seconds
		p.refused += s.Refused
		p.lost += s.Lost
		p.second += s.Second
		p.findings += len(s.Findings)
		p.told = max(p.told, s.ToldWithin)
		for op, n := range s.Operations {
			kind, language, _ := strings.Cut(op, ", ")
			if had[kind] == nil {
				had[kind] = map[string]int{}
			}
			had[kind][language] += n
		}
		for what, n := range s.Strokes {
			strokes[what] += n
		}
	}
	var b strings.Builder
	b.WriteString("| servers | version | rounds | minutes | calls that got nothing | holds lost | " +
		"second holders after a server forgot | the first was told within | findings |\n" +
		"|---|---|---|---|---|---|---|---|---|\n")
	for _, place := range slices.Sorted(maps.Keys(places)) {
		p := places[place]
		fmt.Fprintf(&b, "| %s | %d | %.0f | %d | %d | %d | %v | %d |\n", place, p.rounds, p.seconds/60, p.refused, p.lost,
			p.second, p.told.Round(time.Millisecond), p.findings)
	}
	b.WriteString("\n| kind | had by Go | by Java |\n|---|---|---|\n")
	for _, kind := range slices.Sorted(maps.Keys(had)) {
		fmt.Fprintf(&b, "| %s | %d | %d |\n", kind, had[kind]["Go"], had[kind]["Java"])
	}
	b.WriteString("\n| what befell them | times |\n|---|---|\n")
	for _, what := range slices.Sorted(maps.Keys(strokes)) {
		fmt.Fprintf(&b, "| %s | %d |\n", what, strokes[what])
	}
	return b.String()
}
