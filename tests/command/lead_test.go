package command

import (
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/leader"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

const election = "scheduler"

// leads is a command that says which term it has, and ends 3 when it is asked to end.
const leads = `trap 'echo "over $HOLDFAST_TOKEN"; exit 3' TERM
echo "leads $HOLDFAST_TOKEN"; while :; do sleep 0.1; done`

// stand starts "holdfast lead", with a lease that outlasts a machine that stands still for a second or two.
func stand(t testing.TB, srv *redistest.Server, args ...string) *job {
	t.Helper()
	return beginVerb(t, srv, nil, "lead", append([]string{"--verbose", "--lease", "15"}, args...)...)
}

// term reads the line in which the command says that its term has begun, or is over.
func (j *job) term(word string) int64 {
	j.t.Helper()
	text, found := strings.CutPrefix(j.line(), word+" ")
	require.True(j.t, found)
	n, err := strconv.ParseInt(text, 10, 64)
	require.NoError(j.t, err)
	return n
}

// candidates waits until so many wait behind the leader.
func candidates(t testing.TB, s *holdfast.Session, n int) {
	t.Helper()
	kit.Await(t, strconv.Itoa(n)+" candidates", func() bool {
		all, err := leader.Candidates(t.Context(), s, election)
		require.NoError(t, err)
		return len(all) == n
	})
}

func TestLeadersFollowEachOther(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := open(t, srv, &holdfast.Options{Anonymous: true})
	first := stand(t, srv, election, "-c", leads)
	term := first.term("leads")
	kit.Await(t, "a record", func() bool {
		l, err := leader.Current(t.Context(), s, election)
		require.NoError(t, err)
		return l.Term == term && strings.HasPrefix(l.Label, "holdfast lead: ")
	})
	second := stand(t, srv, election, "-c", leads)
	candidates(t, s, 1)
	third := stand(t, srv, election, "--", "sh", "-c", "exit 4")
	candidates(t, s, 2)

	first.signal(syscall.SIGTERM)
	require.Equal(t, term, first.term("over"))
	require.Equal(t, 3, first.code())
	next := second.term("leads")
	require.Greater(t, next, term)
	require.NoError(t, second.cmd.Process.Kill()) // and its lease ends
	require.Equal(t, 4, third.code(), &third.stderr)
	l, err := leader.Current(t.Context(), s, election)
	require.NoError(t, err)
	require.Zero(t, l)
	kit.Await(t, "the end of the record", func() bool { return free(t, srv, "holdfast_leader:{"+election+"}") })

	// One that waits gives up at a signal.
	held := stand(t, srv, election, "-c", leads)
	held.term("leads")
	waits := stand(t, srv, election, "-c", leads)
	candidates(t, s, 1)
	waits.signal(syscall.SIGINT)
	require.Equal(t, 130, waits.code())
	candidates(t, s, 0)
}

// A leader that loses its term stands again, behind those who wait.
func TestALostTermIsFollowed(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := open(t, srv, &holdfast.Options{Anonymous: true})
	first := stand(t, srv, election, "-c", leads)
	second := (*job)(nil)
	last := first.term("leads")
	for n := range 3 {
		if n == 1 {
			second = stand(t, srv, election, "-c", leads)
			candidates(t, s, 1)
		}
		ok(t, srv, "unlock", "--yes", election)
		require.Equal(t, last, first.term("over"))
		if n == 1 {
			last = second.term("leads")
			candidates(t, s, 1)
			second.signal(syscall.SIGTERM)
			require.Equal(t, last, second.term("over"))
			require.Equal(t, 3, second.code())
		}
		next := first.term("leads")
		require.Greater(t, next, last)
		last = next
	}
	first.signal(syscall.SIGTERM)
	first.term("over")
	require.Equal(t, 3, first.code())
	require.Equal(t, 3, strings.Count(first.stderr.String(), "standing for election"))
	require.Empty(t, first.gone())
}

// After a signal that asks to end, a leader that loses its term does not stand again, even if its command goes on.
func TestALeaderThatIsToldToEndStandsNoMore(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t)
			j := stand(t, srv, "--grace", "100ms", election, "-c",
				`trap "echo told" HUP INT QUIT TERM; echo leads; while :; do sleep 0.1; done`)
			require.Equal(t, "leads", j.line())
			j.signal(sig)
			require.Equal(t, "told", j.line())
			ok(t, srv, "unlock", "--yes", election)
			require.NotContains(t, j.gone(), "leads")
			require.Equal(t, 79, j.code(), &j.stderr)
		})
	}
}

// Nor does one whose command has ended by SIGINT, or that gets a signal while it gives its lost term back.
func TestALeaderThatIsInterruptedStandsNoMore(t *testing.T) {
	t.Parallel()
	t.Run("its command", func(t *testing.T) {
		t.Parallel()
		srv := redistest.Start(t)
		j := stand(t, srv, election, "--", "sh", "-c",
			`trap "trap - INT; kill -INT $$" TERM; echo leads; while :; do sleep 0.1; done`)
		require.Equal(t, "leads", j.line())
		ok(t, srv, "unlock", "--yes", election)
		require.Empty(t, j.gone())
		require.Equal(t, 79, j.code(), &j.stderr)
		require.NotContains(t, j.stderr.String(), "standing")
	})
	t.Run("itself", func(t *testing.T) {
		t.Parallel()
		srv := redistest.Start(t)
		j := stand(t, srv, "--lease", "20", "--grace", "8", election, "-c", leads)
		j.term("leads")
		srv.Pause()
		j.term("over")
		j.said("releasing the lock takes long")
		j.signal(syscall.SIGTERM)
		require.Equal(t, 79, j.code(), &j.stderr)
		require.NotContains(t, j.stderr.String(), "standing")
	})
}

// A signal to the whole fleet, such as one to reopen logs, is for the leader's command. It ends no candidate, and the
// command of the next leader hears nothing of it.
func TestCandidatesOutliveSignalsForTheCommand(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := open(t, srv, &holdfast.Options{Anonymous: true})
	first := stand(t, srv, election, "-c", `trap "echo told" USR1 USR2 ALRM; `+leads)
	first.term("leads")
	second := stand(t, srv, election, "-c", leads)
	candidates(t, s, 1)
	for _, sig := range []syscall.Signal{syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM} {
		second.signal(sig)
		first.signal(sig)
		require.Equal(t, "told", first.line())
	}
	first.signal(syscall.SIGTERM)
	first.term("over")
	second.term("leads")
	second.signal(syscall.SIGUSR1)
	require.Equal(t, 128+int(syscall.SIGUSR1), second.code(), &second.stderr)
	require.Contains(t, second.stderr.String(), "executing")
}

// A leader that is cut off ends its command before the next term begins, and waits the outage out.
func TestALeaderOutlivesAnOutage(t *testing.T) {
	t.Parallel()
	outlivesAnOutage(t, func(*job) {}, "--grace", "2")
}

// Who resizes the terminal while the lost term is given back ends nothing.
func TestALeaderStandsAgainThoughItsTerminalIsResized(t *testing.T) {
	t.Parallel()
	outlivesAnOutage(t, func(first *job) {
		first.said("releasing the lock takes long")
		first.signal(syscall.SIGWINCH)
	}, "--lease", "12") // it is given back for a third of that at most
}

// outlivesAnOutage has a leader lose its term in an outage, and lead again after it. Something happens between the end
// of the command and the next stand.
func outlivesAnOutage(t *testing.T, between func(first *job), args ...string) {
	t.Helper()
	srv := redistest.Start(t)
	first := stand(t, srv, append(args, election, "-c", leads)...)
	term := first.term("leads")
	srv.Pause()
	require.Equal(t, term, first.term("over"))
	between(first)
	first.said("standing for election")
	srv.Resume()
	require.Greater(t, first.term("leads"), term)
	first.signal(syscall.SIGTERM)
	first.term("over")
	require.Equal(t, 3, first.code())
}

// A term that is lost before its command has begun is followed as well.
func TestATermIsLostBeforeItsCommand(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	j, listen := beginMuteWith(t, srv, nil, "lead", "--lease", "6s", "--verbose", election,
		"-c", "exec 2>/dev/null; "+leads)
	kit.Await(t, "it has the term", func() bool { return !free(t, srv, election) })
	<-time.After(100 * time.Millisecond) // its message about that is read by nobody, which takes a second
	j.signal(syscall.SIGSTOP)
	kit.Await(t, "the lease is over", func() bool { return free(t, srv, election) })
	j.signal(syscall.SIGCONT)
	listen()
	kit.Await(t, "the next term", func() bool { return !free(t, srv, election) })
	next := srv.Str(t, "GET", "redisson_lock_token:{"+election+"}")
	for strconv.FormatInt(j.term("leads"), 10) != next { // a busy machine was stopped too late
	}
	j.signal(syscall.SIGTERM)
	j.term("over")
	require.Equal(t, 3, j.code())
}

func TestMistakesOfLead(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	for want, args := range map[string][]string{
		"holdfast: lead: want the NAME of a lock\n":                    {"lead"},
		"holdfast: lead: want a command: holdfast lead x -- COMMAND\n": {"lead", "x"},
		"holdfast: lead: --lease is 10ms, must be at least 1s for a lock that is renewed\n": {
			"lead", "--lease", "0.01", "x", "--", "true",
		},
	} {
		r := run(t, srv, nil, args...)
		require.Equal(t, result{stderr: want, code: 64}, r)
	}
	require.Equal(t, 64, run(t, srv, nil, "lead", "-n", "x", "--", "true").code)
	// Inside of a term a nested one of the same name is that term.
	require.Equal(t, "nested\n", ok(t, srv, "lead", "x", "--", binary, "lead", "x", "--", "echo", "nested"))
}
