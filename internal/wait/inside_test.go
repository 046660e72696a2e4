package wait

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// If a hint and the alarm come together, the sleep has ended with the hint.
func TestAnAlarmAfterAHintIsNoCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := NewAlarm()
		for cause, hint := range map[Cause]bool{Hint: true, Timer: false} {
			w := NewWaiter(a)
			a.set(&w, time.Second)
			if hint {
				w.Wake()
			}
			time.Sleep(time.Second)
			synctest.Wait()
			got, closed := a.stop(&w)
			assert.Equal(t, cause, got)
			assert.False(t, closed)
		}
	})
}

func TestNothingIsLeftOfCallsThatWaitedApart(t *testing.T) {
	ls := NewLines(func(string, Hearer) Ear { return nil }, NewAlarm())
	p := ls.Apart(Name{Channel: "x", Key: "x"}).Share()
	p.Expect("x:me", "session:1")
	p.Expect("x:me", "session:2")
	p.Leave(0)
	assert.Zero(t, len(ls.expected)+len(ls.desks)+len(ls.beside))
}
