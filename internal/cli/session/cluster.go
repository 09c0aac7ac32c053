package session

import (
	"cmp"
	"context"
)

// ContextName returns the cluster's name for people: the kubeconfig's context.
func (s *Session) ContextName() string {
	raw, err := s.loader().RawConfig()
	if err != nil {
		return ""
	}
	return cmp.Or(s.overrides.CurrentContext, raw.CurrentContext)
}

// OperatorNamespace returns the operator's namespace: that of --namespace, or that of the WindowsInstances. If the user may not list them or the
// cluster does not serve them, it returns the fallback namespace.
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
