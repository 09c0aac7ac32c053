package signature

// ProvenanceType is the predicate type of provenance statements (https://slsa.dev/spec/v1.1/provenance).
const ProvenanceType = "https://slsa.dev/provenance/v1"

// Provenance describes what a release was built from, and who claims it.
type Provenance struct {
	// Source is the URL of the repository of the source code. Version is the semantic version of the release without v, Revision the whole
	// commit that its tag names.
	Source, Version, Revision string
	// Builder is the URI of the builder.
	Builder string
}

// HandBuilder is the builder of a release that a maintainer built and signed with the key.
func HandBuilder(source string) string { return source + "/blob/main/RELEASE.md#builders" }

// Statement returns the provenance of subjects. It has no times: the same build gives the same statement.
func (p Provenance) Statement(subjects ...Subject) Statement {
	uri := "git+" + p.Source + "@refs/tags/v" + p.Version
	return Statement{
		Subjects: subjects, PredicateType: ProvenanceType,
		Predicate: map[string]any{
			"buildDefinition": map[string]any{
				"buildType":          p.Source + "/blob/main/RELEASE.md#steps",
				"externalParameters": map[string]any{"source": uri, "target": "make release", "version": p.Version},
				"resolvedDependencies": []any{
					map[string]any{"uri": uri, "digest": map[string]any{"gitCommit": p.Revision}},
				},
			},
			"runDetails": map[string]any{"builder": map[string]any{"id": p.Builder}},
		},
	}
}
