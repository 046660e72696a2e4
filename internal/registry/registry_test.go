package registry_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-go/holdfast/internal/registry"
)

func TestMembersComeAndGo(t *testing.T) {
	var r registry.Registry[int]
	r.Remove("a") // it is not there
	for _, gone := range []string{"a", "b", "c"} {
		r.Add("a", 1)
		r.Add("b", 2)
		r.Add("c", 3)
		assert.Equal(t, []int{3, 1}, r.Find([]string{"c", "none", "", "a"}))
		r.Remove(gone)
		r.Remove(gone)
		for _, text := range []string{"a", "b", "c"} {
			assert.Equal(t, text != gone, len(r.Find([]string{text})) == 1)
		}
	}
}
