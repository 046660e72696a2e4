package session

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestAClosedAdmissionIsIdleWhenTheLastHasLeft(t *testing.T) {
	a := newAdmission()
	assert.True(t, a.enter())
	assert.True(t, a.enter())
	idle := a.close()
	assert.False(t, a.enter())
	a.leave()
	select {
	case <-idle:
		t.Fatal("idle with one under way")
	default:
	}
	a.leave()
	<-idle
	assert.False(t, a.enter())
}

func TestAnAdmissionThatNobodyEnteredIsIdleAtOnce(t *testing.T) {
	<-newAdmission().close()
}

func TestNobodyIsAdmittedOnceAnAdmissionIsIdle(t *testing.T) {
	for range 200 {
		a := newAdmission()
		var idle atomic.Bool
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for a.enter() {
					assert.False(t, idle.Load())
					a.leave()
				}
			})
		}
		<-a.close()
		idle.Store(true)
		wg.Wait()
	}
}
