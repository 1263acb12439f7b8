package names

const auditToken = ".audit."

// AuditStream returns the name of the stream of the audit log: TR_AUDIT.
func (l Layout) AuditStream() string { return l.name("_AUDIT") }

// AllAudit returns the filter tr.audit.*.*.* of all events of the audit log.
func (l Layout) AllAudit() string { return l.withDefaults().Prefix + auditToken + "*.*.*" }

// TenantAudit returns the filter tr.audit.tenant.<tenant>.* of the events of a tenant. The error is a *TokenError.
func (l Layout) TenantAudit(tenant string) (string, error) {
	return valid(l.withDefaults().Prefix+auditToken+"tenant."+tenant+".*", CheckToken("tenant", tenant))
}

// Audit returns the subject of an act: tr.audit.tenant.<tenant>.<act>, or tr.audit.none.none.<act> for a client without a tenant, which is not authenticated.
// The error is a *TokenError.
func (l Layout) Audit(tenant, act string) (string, error) {
	if err := CheckToken("act", act); err != nil {
		return "", err
	}
	if tenant == "" {
		return l.withDefaults().Prefix + auditToken + "none.none." + act, nil
	}
	return valid(l.withDefaults().Prefix+auditToken+"tenant."+tenant+"."+act, CheckToken("tenant", tenant))
}
