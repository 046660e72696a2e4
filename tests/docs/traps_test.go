package docs

import (
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// traps are the mistakes of a client other than Redisson that leave Redisson's processes hanging, spinning or wrong,
// with the tests that fail when we make them. Those in the folder interop run beside Redisson itself.
var traps = []struct {
	trap  string
	tests []string
}{
	// Wake-ups.
	{"a change that is not published, in the same step: the waiters sleep on, some for ever", []string{
		"interop/TestReleaseWakesTheOtherSide", "interop/TestSemaphoreGiftsWakeTheOtherSide",
		"interop/TestLatchOpensForTheOtherSide", "TestScripts",
	}},
	{
		"published sharded to those who subscribe plainly, or the reverse",
		[]string{"interop/TestClusterReleaseWakesTheOtherSide", "TestCluster"},
	},
	{"a message that is no plain decimal number: it is dropped with an error in a log", []string{
		"interop/TestGoldenStatesOfLock", "interop/TestExpirableGoldenStates", "TestScripts", "TestSemaphoreScripts",
	}},
	{
		"a channel whose name has its braces or colons elsewhere",
		[]string{"interop/TestNames", "interop/TestLatchNames", "internal/TestNamesAreRedissons"},
	},
	{
		"a write release that publishes 0: one reader of each process wakes, the others sleep on",
		[]string{"interop/TestRWReleaseWakesTheOtherSide", "interop/TestRWGoldenStatesOfWrites"},
	},
	{
		"a fair release published to all, or on the channel of a plain lock: nobody listens there",
		[]string{"interop/TestFairReleaseWakesTheOtherSide", "interop/TestFairGoldenStates"},
	},
	{
		"a latch that is set without publishing: a waiter from an earlier round spins",
		[]string{"interop/TestLatchSetAgainBehindJavasBack", "interop/TestLatchIsSetAgain", "TestLatchScripts"},
	},
	{
		"a latch left at zero, or announced as open too early: waiters spin, and it can never be set again",
		[]string{"interop/TestLatchStuckAtZero", "interop/TestLatchGoldenStates"},
	},
	// What is on the server.
	{
		"a lock without an expiry: a fenced lock of Redisson's takes it for its own",
		[]string{
			"TestScripts", "TestAcquireReadScript", "TestAcquireWriteScript", "TestScriptsRefuseBadLeases",
			"interop/TestGoldenStatesOfLock",
		},
	},
	{
		"a count, a token or a number of permits that is no whole number",
		[]string{"interop/TestGoldenStatesOfFencedLock", "interop/TestSemaphoreGoldenStates", "TestSemaphoreScripts"},
	},
	{
		"a read hold without its key, or under another number: the next read release deletes the lock",
		[]string{"interop/TestRWGoldenStatesOfReads", "interop/TestRWReadReleaseLeavesTheOtherSide"},
	},
	{
		"a renewal of a read lock that leaves the keys of its holds out",
		[]string{"interop/TestRWWatchdogKeepsReadHolds", "TestRenewReadScript"},
	},
	{"a writer whose field does not say that it writes", []string{"interop/TestRWGoldenStatesOfWrites"}},
	{
		"a waiter of a fair lock in the list without a score, or the reverse, or twice",
		[]string{
			"interop/TestFairGoldenStates", "interop/TestFairWaiterKeepsItsPlace",
			"TestAWaiterSurvivesWhatTheServerForgets",
		},
	},
	{
		"a score of a fair lock that is not in whole ms since the epoch",
		[]string{"interop/TestFairScoresOfMixedQueue", "interop/TestFairGoldenStates"},
	},
	{
		"scores of a fair lock that drift: live waiters are dropped, or dead ones kept",
		[]string{
			"interop/TestFairScoresOfMixedQueue", "interop/TestFairGoWaiterOutlivesALongHold",
			"interop/TestFairDeadWaiterDelaysTheOtherSide",
		},
	},
	{
		"the id of a permit as hexadecimal text: only the end of its lease gives it back",
		[]string{"interop/TestExpirableIDsCrossOver", "interop/TestExpirableGoldenStates"},
	},
	{
		"the end of a permit's lease as a fraction, too large, or never in other digits",
		[]string{
			"interop/TestExpirableJavaReadsTheLeasesOfGo", "interop/TestExpirableForeverOutlivesTheProcess",
			"TestExpirableScripts",
		},
	},
	{
		"permits and the number of free ones that are not changed in one step",
		[]string{"interop/TestExpirableCrowd", "TestAHistoryOfTwelveProcessesIsThatOfPermitsWithLeases"},
	},
	{
		"names in a cluster whose keys are in several slots",
		[]string{"internal/TestCheckSlot", "internal/TestCheckSlotOfALatch", "interop/TestLatchInCluster"},
	},
	{
		"several kinds of lock under one name: README says one kind for one name; what is no lock of the kind stays as it is",
		[]string{"TestAKeyOfAnotherTypeStaysUntouched"},
	},
	{
		"the lock deleted and its other keys left",
		[]string{
			"interop/TestRWForceUnlockEndsAllReaders", "TestForceHalfScript",
			"TestADeletedSemaphoreTakesItsPermitsAlong", "TestWaitersAreListedInOrderAndForceWakesTheFirst",
		},
	},
	{
		"an expiry of 0 ms, which deletes the lock that was just taken",
		[]string{"TestScriptsRefuseBadLeases", "TestExtremeLeases"},
	},
	{
		"a fencing token that is deleted, or expires: it begins anew",
		[]string{"interop/TestTokensGrowAcrossLanguages", "interop/TestGoldenStatesOfFencedLock"},
	},
	{"Redisson's notes of unlocks under way deleted", []string{"TestRedissonsNotesOfUnlocksAreLeftAlone"}},
	// What callers are told.
	{
		"a fair release of what has gone, reported as done",
		[]string{"interop/TestFairForceUnlockWakesWaiters", "TestErrOfAHold"},
	},
	{
		"a release of a half that has gone, which Redisson publishes all the same",
		[]string{"interop/TestRWForceUnlockWakesWaiters", "TestReleaseReadScript", "TestReleaseWriteScript"},
	},
	{"locks inspected on a replica", []string{"TestOptionsAreChecked", "TestSentinelFailover"}},
	{
		"goroutines taken for one thread, so that they enter each other's locks",
		[]string{"TestOwners", "TestOneHolderAtATime"},
	},
	{"nil or messages read as in another protocol", []string{"TestEveryKindSpeaksTheOldProtocol", "TestOneHolderAtATime"}},
	{
		"a right that a script needs and the guide does not list",
		[]string{"TestScripts", "TestExpirableScripts", "TestTheACLOfTheGuideHasNothingToSpare"},
	},
}

// testsIn returns the tests of a folder, and with below also those of the folders in it.
func testsIn(t *testing.T, folder string, below bool) map[string]bool {
	t.Helper()
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)
	there := make(map[string]bool)
	require.NoError(t, filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != folder && !below:
			return fs.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		for _, found := range declared.FindAllStringSubmatch(string(text), -1) {
			there[found[1]] = true
		}
		return err
	}))
	return there
}

// A table that names a missing test would be worth nothing.
func TestEveryTrapHasATest(t *testing.T) {
	t.Parallel()
	there := map[string]map[string]bool{
		".": {}, "interop": testsIn(t, "../interop", false), "internal": testsIn(t, "../../internal", true),
	}
	for _, folder := range []string{"faults", "history", "hub", "locks", "scripts", "several"} {
		maps.Copy(there["."], testsIn(t, "../"+folder, false))
	}
	require.Len(t, traps, 31)
	for _, trap := range traps {
		for _, test := range trap.tests {
			assert.True(t, there[path.Dir(test)][path.Base(test)], "%s, against %s", test, trap.trap)
		}
	}
}

func TestEveryGuaranteeHasTheTestsThatItsPageNames(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/guarantees.md")
	require.NoError(t, err)
	text, _, found := strings.Cut(string(page), "\n## Which error")
	require.True(t, found)
	guarantees := strings.Split(text, "\n### G")[1:]
	require.Len(t, guarantees, 10)
	there := testsIn(t, "../..", true)
	for _, g := range guarantees {
		number, _, _ := strings.Cut(g, ".")
		named := regexp.MustCompile("`(Test\\w+)`").FindAllStringSubmatch(g, -1)
		assert.NotEmpty(t, named, "G%s has no test", number)
		for _, test := range named {
			assert.True(t, there[test[1]], "G%s: there is no %s", number, test[1])
		}
	}
}
