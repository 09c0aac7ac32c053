# Prepares this host for logins of the Windows Machine Config Operator over SSH. The script can run at every start: it changes only what
# differs from the desired state.
$ErrorActionPreference = 'Stop'
$ProgressPreference = 'SilentlyContinue'

$sshFolder = Join-Path $env:ProgramData 'ssh'
$publicKeys = @(
    #KEYS#
)
# Address ranges from which the SSH server accepts connections; empty for all.
$allowFrom = @(
    #ALLOWFROM#
)

# Retries a script block for up to 15 minutes: at the first start, the network may be down for minutes, and Windows may be busy.
function Invoke-WithRetries {
    param([string]$What, [scriptblock]$Try)
    for ($n = 1; ; $n++) {
        try {
            & $Try
            return
        } catch {
            if ($n -ge 60) { throw }
            Write-Host "$What, attempt ${n}: $_"
            Start-Sleep -Seconds 15
        }
    }
}

# Enables the account that the operator logs in to: capi if the platform created it, otherwise the built-in administrator, whose name varies.
function Enable-Account {
    if (Get-LocalUser -Name 'capi' -ErrorAction SilentlyContinue) { return }
    $builtIn = Get-LocalUser | Where-Object { $_.SID.Value -match '^S-1-5-21-.*-500$' }
    if (-not $builtIn -or $builtIn.Enabled) { return }
    $bytes = New-Object byte[] 24
    $random = [System.Security.Cryptography.RandomNumberGenerator]::Create()
    $random.GetBytes($bytes)
    $random.Dispose()
    # The password is random and not stored. The suffix has a character of each kind that a policy may require.
    $password = ConvertTo-SecureString -String ([Convert]::ToBase64String($bytes) + 'aA1!') -AsPlainText -Force
    Set-LocalUser -SID $builtIn.SID -Password $password
    Enable-LocalUser -SID $builtIn.SID
}

# Windows Server 2025 includes the server; earlier versions install it from Windows Update or the source that the administrator configured.
function Install-Server {
    if (Get-Service -Name 'sshd' -ErrorAction SilentlyContinue) { return }
    Invoke-WithRetries -What 'Installing OpenSSH' -Try {
        Add-WindowsCapability -Online -Name 'OpenSSH.Server~~~~0.0.1.0' | Out-Null
        Get-Service -Name 'sshd' | Out-Null
    }
}

# Adds each set of keys only once, so that keys that the operator replaces later are not restored at the next start.
function Add-PublicKeys {
    New-Item -ItemType Directory -Force -Path $sshFolder | Out-Null
    $file = Join-Path $sshFolder 'administrators_authorized_keys'
    $marker = Join-Path $sshFolder 'windows-user-data-keys'
    $wanted = $publicKeys -join "`n"
    if ((Test-Path $file) -and (Test-Path $marker) -and ([IO.File]::ReadAllText($marker) -ceq $wanted)) { return }
    $lines = @()
    if (Test-Path $file) { $lines = @([IO.File]::ReadAllLines($file)) }
    $lines += @($publicKeys | Where-Object { $lines -cnotcontains $_ })
    [IO.File]::WriteAllLines("$file.new", [string[]]$lines)
    # Administrators and SYSTEM by SID, because their names depend on the language. The server ignores a file that others can write.
    & icacls.exe "$file.new" /setowner '*S-1-5-32-544' | Out-Null
    if ($LASTEXITCODE -ne 0) { throw "icacls.exe /setowner exited with code $LASTEXITCODE" }
    & icacls.exe "$file.new" /inheritance:r /grant:r '*S-1-5-32-544:F' '*S-1-5-18:F' | Out-Null
    if ($LASTEXITCODE -ne 0) { throw "icacls.exe /grant exited with code $LASTEXITCODE" }
    Move-Item -Force -Path "$file.new" -Destination $file
    [IO.File]::WriteAllText($marker, $wanted)
}

# The server uses the first value of each setting, so these are added at the top; after a Match line, they would apply to some users only.
function Start-Server {
    Set-Service -Name 'sshd' -StartupType Automatic
    $file = Join-Path $sshFolder 'sshd_config'
    if (-not (Test-Path $file)) { Start-Service -Name 'sshd' } # the first start creates the file shortly afterwards
    Invoke-WithRetries -What 'Waiting for sshd_config' -Try { [IO.File]::ReadAllLines($file) | Out-Null }
    $wanted = @('PubkeyAuthentication yes', 'PasswordAuthentication no')
    $lines = @([IO.File]::ReadAllLines($file))
    if ((@($lines | Select-Object -First 2) -join "`n") -cne ($wanted -join "`n")) {
        [IO.File]::WriteAllLines("$file.new", [string[]]($wanted + $lines))
        Invoke-WithRetries -What 'Replacing sshd_config' -Try { Move-Item -Force -Path "$file.new" -Destination $file }
        Restart-Service -Name 'sshd' -Force
    }
    Start-Service -Name 'sshd'
}

# The SSH rule of Windows Server 2025 applies only to private networks, and clouds' networks are public ones. The operator opens other
# ports when the host becomes a node.
function Open-Firewall {
    $name = 'OpenSSH-Server-In-TCP'
    $limit = @{}
    if ($allowFrom.Count -gt 0) { $limit = @{ RemoteAddress = $allowFrom } }
    if (Get-NetFirewallRule -Name $name -ErrorAction SilentlyContinue) {
        Set-NetFirewallRule -Name $name -Enabled True -Profile Any -Action Allow -EdgeTraversalPolicy Block @limit
        return
    }
    New-NetFirewallRule -Name $name -DisplayName 'OpenSSH SSH Server (sshd)' -Direction Inbound -Action Allow -Protocol TCP -LocalPort 22 -Profile Any -Enabled True -EdgeTraversalPolicy Block @limit | Out-Null
}
#PLATFORM#
# A failed step does not prevent the others.
$failed = @()
foreach ($step in @(#STEPS#)) {
    try {
        & $step
    } catch {
        Write-Host "${step}: $_"
        $failed += $step
    }
}
if ($failed.Count -gt 0) { throw "Failed: $($failed -join ', ')" }
