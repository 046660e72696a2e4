package multilock

import (
	"context"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/core"
	"github.com/holdfast-go/holdfast/internal/several"
)

// gathered are the holds that a call has so far, each at the place of its member.
type gathered []*holdfast.Hold

// letGo gives all of them back, at once. It waits for that until ctx ends, and a little longer; it goes on all the
// same.
func (g gathered) letGo(ctx context.Context) {
	var holds []*core.Hold
	for _, h := range g {
		if h != nil {
			holds = append(holds, (*core.Hold)(h)) // its session goes on if it is not known whether that was done
		}
	}
	if len(holds) > 0 {
		several.LetGo(ctx, holds)
	}
}
