package session

import (
	"cmp"
	"context"
)

// ContextName is the name of the cluster for people: that of the kubeconfig's context.
func (s *Session) ContextName() string {
	raw, err := s.loader().RawConfig()
	if err != nil {
		return ""
	}
	return cmp.Or(s.overrides.CurrentContext, raw.CurrentContext)
}

// OperatorNamespace is the operator's namespace: that of --namespace, or where WindowsInstances are. Where the user may not see them, or the
// cluster does not have them, it is where they would be.
func (s *Session) OperatorNamespace(ctx context.Context) (string, error) {
	if named := s.NamespaceFlag(); named != "" {
		return named, nil
	}
	c, err := s.Client()
	if err != nil {
		return "", err
	}
	_, namespace, _, err := s.instances(ctx, c)
	switch CodeOf(err) {
	case CodeForbidden, CodeNotInstalled:
		return s.fallbackNamespace(), nil
	}
	return namespace, err
}
