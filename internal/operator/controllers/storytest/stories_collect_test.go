package storytest

import (
	"testing"
	"time"

	"github.com/windows-machine-config/wmco/api"
)

// requestCollect sets the collect annotation as kubectl annotate windowsinstance does; an empty id removes it.
func (s *story) requestCollect(instance, id string) {
	s.t.Helper()
	i := s.instance(instance)
	if i.Annotations == nil {
		i.Annotations = map[string]string{}
	}
	if i.Annotations[api.AnnotationCollect] = id; id == "" {
		delete(i.Annotations, api.AnnotationCollect)
	}
	s.must(s.client.Update(s.ctx, i))
}

// A collect request on the instance reaches the Node even while other actions run on the host; a malicious name does not.
func TestStoryCollect(t *testing.T) {
	runStory(t, "collect", 2, atMost(1), func(s *story) {
		request := func(node string) string { return s.node(node).Annotations[api.AnnotationCollect] }
		s.joined()
		s.requestCollect("win-1", "case-1")
		s.until("the Node has the request", time.Minute, func() bool { return request("win-1") == "case-1" })
		s.requestCollect("win-1", `..\..\k\state`)
		s.until("the invalid name is removed", time.Minute, func() bool { return request("win-1") == "" })
		s.requestReboot("win-2")
		s.requestCollect("win-2", "case-2")
		s.until("the Node has the request before its restart", time.Minute, func() bool { return request("win-2") == "case-2" })
		s.requestCollect("win-2", "")
		s.until("the request is removed", time.Minute, func() bool { return request("win-2") == "" })
		node := s.node("win-1")
		node.Annotations[api.AnnotationCollect] = "by-others"
		s.must(s.client.Update(s.ctx, node))
		s.until("foreign requests on the Node are removed", time.Minute, func() bool { return request("win-1") == "" })
	})
}
