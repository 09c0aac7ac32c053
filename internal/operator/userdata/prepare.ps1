# Makes this host one that the Windows Machine Config Operator can log in to. Where it runs at every start, it leaves alone what is as it
# should be, and mends the rest.
$ErrorActionPreference = 'Stop'
$ProgressPreference = 'SilentlyContinue'

$sshFolder = Join-Path $env:ProgramData 'ssh'
$publicKeys = @(
    #KEYS#
)
# Ranges of addresses that may speak to the SSH server; none for everybody.
$allowFrom = @(
    #ALLOWFROM#
)

# Tries until it works: at the first start there may be no network for minutes, and Windows may be busy with itself.
function Invoke-Patiently {
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

# The account that the operator logs in with: capi where the platform made it, else the built-in administrator, whatever it is called.
function Enable-Account {
    if (Get-LocalUser -Name 'capi' -ErrorAction SilentlyContinue) { return }
    $builtIn = Get-LocalUser | Where-Object { $_.SID.Value -match '^S-1-5-21-.*-500$' }
    if (-not $builtIn -or $builtIn.Enabled) { return }
    $bytes = New-Object byte[] 24
    $random = [System.Security.Cryptography.RandomNumberGenerator]::Create()
    $random.GetBytes($bytes)
    $random.Dispose()
    # Nobody needs to know the password. Its end has one of each kind of character that a policy may ask for.
    $password = ConvertTo-SecureString -String ([Convert]::ToBase64String($bytes) + 'aA1!') -AsPlainText -Force
    Set-LocalUser -SID $builtIn.SID -Password $password
    Enable-LocalUser -SID $builtIn.SID
}

# Windows Server 2025 has the server; the others fetch it from Windows Update or what the administrator put in its place.
function Install-Server {
    if (Get-Service -Name 'sshd' -ErrorAction SilentlyContinue) { return }
    Invoke-Patiently -What 'Installing OpenSSH' -Try {
        Add-WindowsCapability -Online -Name 'OpenSSH.Server~~~~0.0.1.0' | Out-Null
        Get-Service -Name 'sshd' | Out-Null
    }
}

# Each set of keys is put there once. What the operator makes of the file later, a new key for an old one, outlives a restart.
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
    # Administrators and SYSTEM, by number: their names differ between languages. The server ignores a file that others can write.
    & icacls.exe "$file.new" /setowner '*S-1-5-32-544' | Out-Null
    if ($LASTEXITCODE -ne 0) { throw "icacls.exe /setowner ended with $LASTEXITCODE" }
    & icacls.exe "$file.new" /inheritance:r /grant:r '*S-1-5-32-544:F' '*S-1-5-18:F' | Out-Null
    if ($LASTEXITCODE -ne 0) { throw "icacls.exe /grant ended with $LASTEXITCODE" }
    Move-Item -Force -Path "$file.new" -Destination $file
    [IO.File]::WriteAllText($marker, $wanted)
}

# The server takes the first value it finds, so ours go to the top; below a line with Match they would be for some users only.
function Start-Server {
    Set-Service -Name 'sshd' -StartupType Automatic
    $file = Join-Path $sshFolder 'sshd_config'
    if (-not (Test-Path $file)) { Start-Service -Name 'sshd' } # its first start writes the file, some moments later
    Invoke-Patiently -What 'Waiting for sshd_config' -Try { [IO.File]::ReadAllLines($file) | Out-Null }
    $wanted = @('PubkeyAuthentication yes', 'PasswordAuthentication no')
    $lines = @([IO.File]::ReadAllLines($file))
    if ((@($lines | Select-Object -First 2) -join "`n") -cne ($wanted -join "`n")) {
        [IO.File]::WriteAllLines("$file.new", [string[]]($wanted + $lines))
        Invoke-Patiently -What 'Replacing sshd_config' -Try { Move-Item -Force -Path "$file.new" -Destination $file }
        Restart-Service -Name 'sshd' -Force
    }
    Start-Service -Name 'sshd'
}

# Windows Server 2025 brings a rule for SSH that holds for private networks only, and a cloud's network is a public one. Other ports are
# opened when the host becomes a node.
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
# A step that fails does not keep the others from what they can do.
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
