package lease_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestRenewsAThirdOfTheLeaseAfterTheSending(t *testing.T) {
	for name, c := range map[string]struct {
		added, sent, reply time.Duration // reply: how long each renewal takes
		want               []time.Duration
	}{
		"replies at once":               {0, 0, 0, seconds(60, 120, 180, 240)},
		"sent before it was added":      {5 * time.Second, time.Second, 0, seconds(61, 121, 181)},
		"slow replies stretch nothing":  {0, 0, 50 * time.Second, seconds(60, 120, 180)},
		"replies slower than a third":   {0, 0, 70 * time.Second, seconds(60, 130, 200)},
		"due when it is added":          {90 * time.Second, 30 * time.Second, 0, seconds(90, 150, 210)},
		"overdue when it is added":      {90 * time.Second, 10 * time.Second, 0, seconds(90, 150, 210)},
		"added after hours of idleness": {3 * time.Hour, 3 * time.Hour, 0, seconds(3*3600+60, 3*3600+120)},
	} {
		t.Run(name, func(t *testing.T) {
			keep(t, func(k *keeper) {
				k.renew = func(call) bool { time.Sleep(c.reply); return true }
				k.until(c.added)
				k.Add(items(1, "a")[0], c.sent)
				k.until(c.want[len(c.want)-1])
				assert.Equal(t, c.want, k.times("a0"))
			})
		})
	}
}

func TestWhatIsDueLaterGoesAlongUnlessItWasRenewedJustNow(t *testing.T) {
	keep(t, func(k *keeper) {
		for i, sent := range []time.Duration{0, along, along + 1} {
			it := items(3, "a")[i]
			k.until(sent)
			k.Add(it, sent)
		}
		k.until(period + along + 1)
		assert.Equal(t, []call{
			{period, []string{"a0", "a1"}},
			{period + along + 1, []string{"a0", "a1", "a2"}},
		}, k.took())
		k.until(3*period + along + 1) // and they stay together
		assert.Equal(t, []call{
			{2*period + along + 1, []string{"a0", "a1", "a2"}},
			{3*period + along + 1, []string{"a0", "a1", "a2"}},
		}, k.took())
	})
}

func TestALeaseOfCenturiesIsRenewed(t *testing.T) {
	keepFor(t, 200*365*24*time.Hour, func(k *keeper) {
		k.Add(items(1, "a")[0], 0)
		k.Hasten(time.Second)
		k.until(time.Second)
		assert.Len(t, k.took(), 1)
	})
}

func TestNobodyIsRenewedBeforeSomebodyIsDue(t *testing.T) {
	keep(t, func(k *keeper) {
		all := items(2, "a")
		k.Add(all[0], 0)
		k.Add(all[1], 1)
		k.until(period - 1)
		assert.Empty(t, k.took())
		k.until(period)
		assert.Len(t, k.took(), 1)
	})
}

func TestAFailedRenewalIsTriedAgainUntilItSucceeds(t *testing.T) {
	for name, c := range map[string]struct {
		takes time.Duration
		want  []time.Duration
	}{
		"refused at once":         {0, seconds(60, 69, 78, 87, 147)},
		"failing after a timeout": {2 * time.Second, seconds(60, 71, 82, 93, 153)},
	} {
		t.Run(name, func(t *testing.T) {
			keep(t, func(k *keeper) {
				failures := 3
				k.renew = func(call) bool {
					time.Sleep(c.takes)
					failures--
					return failures < 0
				}
				k.Add(items(1, "a")[0], 0)
				k.until(c.want[len(c.want)-1])
				assert.Equal(t, c.want, k.times("a0"))
			})
		})
	}
}

func TestASlowBatchDelaysNoOther(t *testing.T) {
	keep(t, func(k *keeper) {
		slow, fast := items(2, "slow"), items(2, "fast")
		k.renew = func(c call) bool {
			if c.names[0] == "slow0" {
				time.Sleep(time.Hour)
			}
			return true
		}
		k.Add(slow[0], 0)
		k.Add(fast[0], 0)
		k.until(50 * time.Second)
		k.Add(slow[1], 45*time.Second) // a later batch of the slow group is not delayed either
		k.Add(fast[1], 50*time.Second)
		k.until(period)
		assert.Len(t, k.took(), 2)
		k.until(170 * time.Second)
		assert.Equal(t, []call{
			{105 * time.Second, []string{"slow1"}},
			{110 * time.Second, []string{"fast0", "fast1"}},
			{165 * time.Second, []string{"slow1"}},
			{170 * time.Second, []string{"fast0", "fast1"}},
		}, k.took())
	})
}

func TestWhatWasRemovedIsNotRenewed(t *testing.T) {
	keep(t, func(k *keeper) {
		all := items(3, "a")
		for i, it := range all {
			k.Add(it, time.Duration(i))
		}
		k.Remove(all[0])
		k.Remove(all[0]) // a second Remove does nothing
		k.until(period + 2)
		assert.Equal(t, []call{{period + 1, []string{"a1", "a2"}}}, k.took())

		k.Remove(all[1])
		k.Remove(all[2])
		k.until(time.Hour)
		assert.Empty(t, k.took())
	})
}

func TestWhatIsRemovedWhileItIsRenewedStaysRemoved(t *testing.T) {
	for name, done := range map[string]bool{"renewed": true, "failed": false} {
		t.Run(name, func(t *testing.T) {
			keep(t, func(k *keeper) {
				all := items(2, "a")
				k.renew = func(call) bool {
					k.Remove(all[0])
					time.Sleep(time.Second)
					return done
				}
				k.Add(all[0], 0)
				k.Add(all[1], 0)
				k.until(period)
				assert.Equal(t, []call{{period, []string{"a0", "a1"}}}, k.took())
				k.until(time.Hour)
				assert.Empty(t, k.times("a0"))
			})
		})
	}
}

// What rests is looked at when it is due, for as long as it rests, and beside what is to be renewed.
func TestWhatRestsIsLookedAt(t *testing.T) {
	keep(t, func(k *keeper) {
		all := items(4, "a")
		var seen []string
		k.look = func(i *item) time.Duration {
			seen = append(seen, fmt.Sprint(i.name, " at ", k.now()))
			if i == all[0] {
				k.Remove(all[0]) // it has ended
			}
			return k.now() + 10*time.Second
		}
		k.Rest(all[0], 20*time.Second)
		k.Rest(all[1], time.Hour)
		k.Rest(all[1], 25*time.Second)
		k.Add(all[2], 0)
		k.Add(all[3], 0)
		k.until(40 * time.Second)
		assert.Equal(t, []string{"a0 at 20s", "a1 at 25s", "a1 at 35s"}, seen)
		assert.Empty(t, k.took())
		k.Add(all[1], k.now()) // somebody wants it renewed after all
		k.Rest(all[3], never)
		k.until(2*period - 1)
		assert.Len(t, seen, 3)
		assert.Equal(t, []time.Duration{period}, k.times("a1"), "with the other")
		assert.Empty(t, k.times("a3"))
		assert.ElementsMatch(t, all[1:], k.All())
	})
}

// A lease may become shorter while it is looked at: what was seen of the longer one does not count.
func TestWhatRestsForLessWhileItIsLookedAt(t *testing.T) {
	keep(t, func(k *keeper) {
		a := items(1, "a")[0]
		var seen []time.Duration
		k.look = func(*item) time.Duration {
			seen = append(seen, k.now())
			if len(seen) == 1 {
				k.Rest(a, 30*time.Second)
			}
			return k.now() + time.Hour
		}
		k.Rest(a, 20*time.Second)
		k.until(time.Minute)
		assert.Equal(t, seconds(20, 30), seen)
	})
	keep(t, func(k *keeper) { // or it is to be renewed by then
		a := items(1, "a")[0]
		k.look = func(*item) time.Duration {
			k.Add(a, k.now())
			return k.now() + time.Second
		}
		k.Rest(a, 20*time.Second)
		k.until(20*time.Second + period)
		assert.Equal(t, []time.Duration{20*time.Second + period}, k.times("a0"))
	})
}

func TestWhatRestsIsKnownAndNotRenewed(t *testing.T) {
	keep(t, func(k *keeper) {
		all := items(4, "a")
		assert.False(t, k.Any())
		k.Rest(all[0], never)
		assert.True(t, k.Any())
		for i, it := range all[1:] {
			k.Add(it, time.Duration(i))
		}
		assert.ElementsMatch(t, all, k.All())
		k.Rest(all[1], never)
		k.until(period + 1)
		assert.Equal(t, []call{{period + 1, []string{"a2", "a3"}}}, k.took())
		assert.ElementsMatch(t, all, k.All())

		k.Add(all[0], period)
		k.renew = func(call) bool {
			assert.ElementsMatch(t, all[:3], k.All(), "also what is being renewed")
			k.Rest(all[2], never)
			k.Hasten(time.Second) // it hastens neither what rests nor what is under way
			return true
		}
		k.Remove(all[3])
		k.until(2*period + 1)
		assert.Equal(t, []call{{2 * period, []string{"a0", "a2"}}}, k.took())
		k.until(3*period + 1)
		assert.Equal(t, []call{{3 * period, []string{"a0"}}}, k.took())
		for i, it := range all[:3] {
			assert.Len(t, k.All(), 3-i)
			k.Remove(it)
		}
		assert.False(t, k.Any())
		k.until(time.Hour)
		assert.Empty(t, k.took())
	})
}

func TestWhatIsAddedAgainWhileItIsRenewedIsRenewedAsNew(t *testing.T) {
	for name, c := range map[string]struct {
		done bool          // whether the old renewal succeeds, at 70 s
		sent time.Duration // of the new lease, added at 65 s
		want []time.Duration
	}{
		"the old renewal succeeds":             {true, 65 * time.Second, seconds(60, 125, 185, 245)},
		"the old renewal fails":                {false, 65 * time.Second, seconds(60, 125, 185, 245)},
		"the old one ends while the new is on": {true, 4 * time.Second, seconds(60, 65, 120, 180, 240)},
	} {
		t.Run(name, func(t *testing.T) {
			keep(t, func(k *keeper) {
				it := items(1, "a")[0]
				k.renew = func(old call) bool {
					time.Sleep(10 * time.Second)
					return c.done || old.at > period
				}
				k.Add(it, 0)
				k.until(65 * time.Second)
				k.Remove(it)
				k.Add(it, c.sent)
				k.Add(it, 0) // an item that is already watched is not added
				k.until(c.want[len(c.want)-1])
				assert.Equal(t, c.want, k.times("a0"))
			})
		})
	}
}

func TestANewEarliestEntryShortensTheSleep(t *testing.T) {
	keep(t, func(k *keeper) {
		k.until(90 * time.Second)
		k.Add(items(1, "a")[0], 90*time.Second)
		k.Add(items(1, "b")[0], 45*time.Second) // granted long ago, but the reply came late
		k.until(91 * time.Second)
		k.Add(items(1, "c")[0], 36*time.Second)
		k.until(150 * time.Second)
		assert.Equal(t, []call{
			{96 * time.Second, []string{"c0"}},
			{105 * time.Second, []string{"b0"}},
			{150 * time.Second, []string{"a0"}},
		}, k.took())
	})
}

func TestRunEndsWithItsContext(t *testing.T) {
	keep(t, func(k *keeper) {
		k.Add(items(1, "a")[0], 0)
		k.until(period)
		assert.Len(t, k.took(), 1)
		k.stop()
		k.Add(items(1, "b")[0], 0) // nobody looks at it any more
		k.until(time.Hour)
		assert.Empty(t, k.took())
	})
}

func TestEveryOutcomeCountsForItselfAlone(t *testing.T) {
	keep(t, func(k *keeper) {
		all := items(3, "a")
		settled := make(chan struct{})
		k.renew = func(c call) bool {
			if c.at == period {
				k.Renewed(all[0], c.at)
				k.Failed(all[1])
				k.Remove(all[2]) // lost
				<-settled        // nothing is left to be settled
			}
			return true
		}
		for _, it := range all {
			k.Add(it, 0)
		}
		k.until(2 * period)
		assert.Equal(t, []call{
			{period, []string{"a0", "a1", "a2"}},
			{period + again, []string{"a1"}},
			{2 * period, []string{"a0", "a1"}},
		}, k.took())
		close(settled)
		k.until(3 * period)
		assert.Equal(t, []call{{3 * period, []string{"a0", "a1"}}}, k.took())
	})
}

// What is due sooner anyway is not put off.
func TestToHastenPutsNothingOff(t *testing.T) {
	keep(t, func(k *keeper) {
		k.Add(items(1, "a")[0], 0)
		k.Hasten(1000 * time.Hour)
		k.until(period)
		assert.Len(t, k.took(), 1)
	})
}
